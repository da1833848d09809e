"""Keras in jobs of its own: Keras 2, files without Dabke, hangs and errors inside fit, the example."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("keras")
ROOT = Path(__file__).resolve().parents[3]
INSTALLED = [each for each in ("jax", "torch", "tensorflow") if importlib.util.find_spec(each)]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
ALIAS = str(ROOT / "bindings/python/horovod_alias")

FIT = """
    import sys, time
    import keras, numpy
    import dabke.keras as hvd
    hvd.init(settings={settings})
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")

    class Trouble(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if hvd.rank() == 1 and batch == 1:
                self.{trouble}()

        def fail(self):
            raise KeyError("no such thing")

        def wait_for_ever(self):
            time.sleep(1000)

    x = numpy.ones((16, 4), "float32")
    try:
        model.fit(x, x[:, :3], batch_size=4, verbose=0, callbacks=[Trouble()])
    except Exception as error:
        print(type(error).__name__, "StalledError" in repr(type(error).__mro__) or "rank 1" in str(error), flush=True)
        raise
"""


def path_with(folder):
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def env_of(backend):
    """A program's variables, without the frameworks that it does not need: each import takes seconds."""
    return {**QUIET, "KERAS_BACKEND": backend, **path_with(ROOT / "tests/python/one_backend")}


def test_keras_2_is_refused_in_one_sentence(run):
    ended = run(
        """
        try:
            import dabke.keras
        except ValueError as error:
            print(error)
    """,
        ranks=0,
        env={**env_of(INSTALLED[0]), "TF_USE_LEGACY_KERAS": "1"},
    )
    wanted = (
        "dabke.keras needs Keras 3, but TF_USE_LEGACY_KERAS selects Keras 2 (tf_keras); unset that variable"
    )
    assert ended.output.strip().splitlines()[-1] == wanted


@pytest.mark.skipif("jax" not in INSTALLED, reason="NumPy's backend of older Keras imports JAX")
def test_a_backend_that_cannot_train_is_refused(run):
    ended = run(
        """
        try:
            import dabke.keras
        except ValueError as error:
            print(error)
    """,
        ranks=0,
        env={**QUIET, "KERAS_BACKEND": "numpy"},
    )
    assert "set KERAS_BACKEND to jax, tensorflow, torch" in ended.output.strip().splitlines()[-1]


@pytest.mark.skipif(len(INSTALLED) < 3, reason="needs PyTorch, JAX and TensorFlow")
def test_three_frameworks_share_a_job_in_one_process(run):
    ended = run(
        """
        import jax, torch
        import jax.numpy as jnp
        import tensorflow as tf
        import dabke.jax, dabke.tensorflow, dabke.torch

        dabke.tensorflow.init()
        rank, size = dabke.jax.rank(), dabke.torch.size()
        in_jax = jax.jit(lambda x: dabke.jax.allreduce(x, op=dabke.jax.Sum, name="x"))
        for step in range(20):
            value = float(rank + step)
            seen = (
                dabke.tensorflow.allreduce(tf.fill([3], value), op=dabke.tensorflow.Sum, name="x"),
                in_jax(jnp.full(3, value)),
                dabke.torch.allreduce(torch.full((3,), value), op=dabke.torch.Sum, name="x"),
            )
            assert [float(each[2]) for each in seen] == [1.0 + 2 * step] * 3, seen
        dabke.torch.shutdown()
        assert not dabke.jax.is_initialized()
        print("all agree", flush=True)
    """,
        ranks=2,
        env=QUIET,
    )
    assert ended.output.count("all agree") == 2


@pytest.mark.skipif("torch" not in INSTALLED, reason="needs PyTorch")
def test_a_model_on_pytorch_trains_under_ddp(run):
    """Torch.distributed over Dabke, without dabke.keras: both ranks end with one process's weights."""
    ended = run(
        """
        import keras, numpy, torch
        import torch.distributed as dist
        import dabke.distributed

        dist.init_process_group("dabke")
        rank, size = dist.get_rank(), dist.get_world_size()
        rows = numpy.random.default_rng(1).standard_normal((32, 4)).astype("float32")

        def trained(wrap, own):
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
            module = wrap(model)
            optimizer = keras.optimizers.SGD(0.1)
            optimizer.build(model.trainable_variables)
            for begin in range(0, 32, 8):
                batch = torch.from_numpy(rows[begin : begin + 8][own])
                module.zero_grad()
                keras.ops.mean((module(batch) - batch.sum(1, keepdim=True)) ** 2).backward()
                gradients = [each.value.grad for each in model.trainable_weights]
                with torch.no_grad():
                    optimizer.apply(gradients, model.trainable_weights)
            return numpy.concatenate([each.numpy().ravel() for each in model.trainable_weights])

        alone = trained(lambda model: model, slice(None))
        together = trained(torch.nn.parallel.DistributedDataParallel, slice(rank, None, size))
        numpy.testing.assert_allclose(together, alone, atol=1e-6)
        assert numpy.abs(together).sum() > 0.1
        dist.destroy_process_group()
        print("one process's weights", flush=True)
    """,
        ranks=2,
        env=env_of("torch"),
    )
    assert ended.output.count("one process's weights") == 2


def test_a_file_is_read_on_another_backend_where_dabke_is_not_installed(run, tmp_path):
    written = run(
        """
        import sys, keras, numpy, dabke.keras as hvd
        hvd.init()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        optimizer = keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)))
        model.compile(optimizer, loss="mse")
        x = numpy.ones((16, 4), "float32")
        model.fit(x, x[:, :3], verbose=0)
        model.save(sys.argv[1])
    """,
        ranks=1,
        env=env_of(INSTALLED[0]),
        arguments=[tmp_path / "model.keras"],
    )
    assert written.code == 0, written.output
    read = run(
        """
        import sys
        sys.modules["dabke"] = None
        import keras
        model = keras.saving.load_model(sys.argv[1])
        inner = model.optimizer.inner_optimizer
        print(type(inner).__name__, int(inner.iterations))
    """,
        ranks=0,
        env=env_of(INSTALLED[:2][-1]),
        arguments=[tmp_path / "model.keras"],
    )
    assert read.output.strip().splitlines()[-1] == "Adam 1", read.output


def test_a_hang_inside_fit_shows_the_line_where_a_rank_waits(run):
    settings = {"STALL_CHECK_TIME_SECONDS": 1, "STALL_SHUTDOWN_TIME_SECONDS": 4}
    ended = run(FIT.format(trouble="wait_for_ever", settings=settings), env=env_of(INSTALLED[0]))
    assert "in wait_for_ever" in ended.output and "in on_train_batch_begin" in ended.output, ended.output
    assert ended.code != 0


@pytest.mark.parametrize("backend", INSTALLED)
def test_an_error_inside_fit_is_the_first_cause_everywhere(run, backend):
    ended = run(FIT.format(trouble="fail", settings={}), env=env_of(backend))
    assert ended.code != 0
    assert "KeyError: 'no such thing'" in ended.output and "rank 1" in ended.output, ended.output


@pytest.mark.parametrize("module", ["horovod.keras", "horovod.tensorflow.keras"])
def test_a_program_written_for_horovod_trains_unchanged(run, module):
    if module == "horovod.tensorflow.keras":
        pytest.importorskip("tensorflow")
    ended = run(
        f"""
        import keras, numpy
        import {module} as hvd
        from {module}.callbacks import MetricAverageCallback
        import {module}.elastic
        hvd.init()
        scaled_lr = 0.01 * hvd.size()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        optimizer = keras.optimizers.Adam(scaled_lr)
        optimizer = hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16)
        model.compile(loss="mse", optimizer=optimizer, metrics=["mae"])
        callbacks = [
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=3, verbose=1),
        ]
        x = numpy.random.default_rng(hvd.rank()).normal(size=(64, 4)).astype("float32")
        history = model.fit(x, x[:, :3], batch_size=16, epochs=4, verbose=0, callbacks=callbacks).history
        score = model.evaluate(x, x[:, :3], verbose=0)
        print(history["loss"][-1] < history["loss"][0], hvd.allreduce(score[0]) > 0, module_is(hvd))
    """.replace("module_is(hvd)", "hvd.DistributedOptimizer.__module__"),
        env={
            **QUIET,
            "KERAS_BACKEND": "tensorflow" if module == "horovod.tensorflow.keras" else INSTALLED[0],
            **path_with(ALIAS),
        },
    )
    assert ended.code == 0, ended.output
    line = ended.lines_of(0)[-1]
    assert line.startswith("True") and "True" in line[4:] and line.endswith("dabke.keras.optimizer"), line


@pytest.mark.parametrize("backend", INSTALLED)
def test_the_example_reaches_its_accuracy_and_goes_on_from_a_checkpoint(backend, tmp_path):
    program = [sys.executable, str(ROOT / "examples/keras_digits.py")]
    program += ["--checkpoint", str(tmp_path / "digits.keras")]
    turns = [("5", "epoch  1/5"), ("6", "epoch  6/6")]
    # keras_job/test_saving.py continues from files on each backend.
    for epochs, first in turns if backend == INSTALLED[0] else turns[:1]:
        done = subprocess.run(
            [os.environ["DABKERUN"], "-np", "2", *program, "--epochs", epochs],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **env_of(backend)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("[0]")]
        assert first in lines[1], done.stdout
        assert float(lines[-1].split()[-2]) >= 94
