"""TensorFlow in jobs of their own: what an import leaves to the program, small thread pools, lost ranks, the
example."""

import importlib.util
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
ROOT = Path(__file__).resolve().parents[3]
# Without the frameworks that tf.keras would import besides: each takes seconds.
ALONE = os.pathsep.join([str(ROOT / "tests/python/one_backend"), os.environ.get("PYTHONPATH", "")])
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONPATH": ALONE,
}

# The size of the pool of threads can only be chosen before TensorFlow has begun, so it also shows that import
# and init leave that to the program.
MANY = """
    import os, random
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    rank, size = hvd.rank(), hvd.size()
    order = list(range(160))
    random.Random(rank).shuffle(order)

    def call(values):
        results = [None] * len(values)
        for i in order:
            results[i] = hvd.allreduce(values[i], op=hvd.Sum, name=str(i))
        return results

    for way in ("async", "blocking"):
        os.environ["DABKE_TENSORFLOW_KERNELS"] = way
        traced = tf.function(call)
        for step in range(10):
            got = traced([tf.fill([i % 9 + 1], float(i * rank + step)) for i in range(160)])
            want = [i * size * (size - 1) / 2 + step * size for i in range(160)]
            assert [each.numpy()[-1] for each in got] == want
        print(way, "is right", flush=True)
"""


def test_160_tensors_in_any_order_need_one_thread(run):
    ended = run(MANY, env=QUIET)
    assert ended.code == 0, ended.output
    for rank in range(2):
        assert ended.lines_of(rank) == ["async is right", "blocking is right"]


LOST = """
    import os, signal
    from concurrent.futures import ThreadPoolExecutor
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()

    def traced(way):
        os.environ["DABKE_TENSORFLOW_KERNELS"] = way
        function = tf.function(lambda: hvd.allreduce(tf.ones([2]), name=way))
        return function.get_concrete_function()

    ways = [traced(way) for way in ("async", "blocking")]
    for call in ways:
        call()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def error_of(call):
        try:
            call()
        except tf.errors.OpError as error:
            return type(error).__name__, "rank 1" in str(error)

    with ThreadPoolExecutor() as threads:  # both wait for rank 1
        print(*threads.map(error_of, ways), flush=True)
    try:
        hvd.allreduce(tf.ones([2]), name="lost")
    except hvd.HorovodInternalError as error:
        print(type(error).__name__, "rank 1" in str(error), flush=True)
"""


def test_a_lost_rank_is_named_in_graphs_and_in_eager_mode(run):
    ended = run(LOST, env=QUIET, to_the_last=True)
    in_graphs = str(("AbortedError", True))
    assert ended.lines_of(0) == [f"{in_graphs} {in_graphs}", "PeerLostError True"], ended.output


HANGS = """
    import json, sys, threading
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init(settings={"STALL_CHECK_TIME_SECONDS": 1, "STALL_SHUTDOWN_TIME_SECONDS": 4})
    hvd.allreduce(tf.ones([2]), name="first")
    over = threading.Event()

    def forgets_to_call():
        over.wait(8)  # longer than the limit of rank 0

    def training_step():
        return traced()

    @tf.function
    def traced():
        return hvd.allreduce(tf.ones([2]), name="gradient")

    if hvd.rank() == 1:
        forgets_to_call()
    try:
        training_step()
    except tf.errors.DeadlineExceededError as error:
        print("gradient" in str(error), flush=True)
"""


def test_a_hang_report_has_the_stack_of_the_rank_that_is_waited_for(run):
    ended = run(HANGS, env=QUIET)
    assert "in forgets_to_call" in ended.output, ended.output
    assert ended.lines_of(0) == ["True"], ended.output


WEIGHTS = """
    import numpy
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    random = numpy.random.default_rng(1)
    images, labels = random.normal(size=(5, 12, 20)), random.integers(0, 3, (5, 12))
    start = random.normal(size=(20, 3))

    def trained(optimizer):
        weight = tf.Variable(start)
        hvd.broadcast_variables([weight], 0)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weight))
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

        for x, y in zip(images, labels):
            step(tf.constant(x), tf.constant(y))
        return weight.numpy()

    plain = trained(tf.keras.optimizers.Adam(0.1))
    ours = trained(hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1)))
    print(abs(ours - plain).max() < 1e-6 < abs(plain - start).max(), hvd.size(), flush=True)
"""


def test_one_rank_comes_to_the_weights_of_plain_tensorflow(run):
    """The same for more ranks: in_job/test_tensorflow_training.py."""
    ended = run(WEIGHTS, ranks=1, env=QUIET)
    assert ended.code == 0 and ended.lines_of(0) == ["True 1"], ended.output


def test_the_example_learns_and_goes_on_from_its_checkpoint(run, tmp_path):
    text = (ROOT / "examples" / "tensorflow_digits.py").read_text()
    data = [
        "--data",
        str(ROOT / "examples" / "data" / "digits.csv"),
        "--checkpoint",
        str(tmp_path / "digits"),
    ]
    ended = run(text, arguments=["--epochs", "4", *data], env=QUIET)
    assert ended.code == 0, ended.output
    last = [line for line in ended.lines_of(0) if line.startswith("epoch")][-1]
    assert float(last.split("accuracy ")[1].split(" ")[0]) > 85, ended.output
    ended = run(text, ranks=1, arguments=["--epochs", "5", *data], env=QUIET)
    assert [line[:8] for line in ended.lines_of(0) if line.startswith("epoch")] == ["epoch  5"], ended.output
    assert os.listdir(tmp_path)
