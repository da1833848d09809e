"""JAX in jobs of its own: imports, lost ranks, jax.distributed, 64 bits, the example."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")
ROOT = Path(__file__).resolve().parents[3]


def test_neither_import_nor_init_initialises_jax(run):
    ended = run("""
        import sys, dabke
        assert not any(name.split('.')[0] in ('jax', 'jaxlib') for name in sys.modules)
        import dabke.jax as hvd
        from jax._src import xla_bridge
        hvd.init()
        hvd.init()  # does nothing
        hvd.api_version()
        assert not xla_bridge.backends_are_initialized()
        import jax
        jax.config.update('jax_num_cpu_devices', 2) if hasattr(jax.config, 'jax_num_cpu_devices') else None
        print(float(jax.jit(hvd.allreduce)(jax.numpy.float32(hvd.rank()))))
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["0.5"]


@pytest.mark.parametrize("ending", ["hvd.shutdown()", "pass"], ids=["shutdown", "exit"])
def test_a_rank_leaves_when_the_programs_that_it_dispatched_have_run(run, ending):
    ended = run(f"""
        import time, jax, dabke.jax as hvd
        hvd.init()
        step = jax.jit(lambda x: hvd.allreduce(x, name='x') + jax.numpy.linalg.inv(jax.numpy.eye(200))[0, 0])
        x = jax.numpy.ones(100_000)
        for _ in range(50):
            x = step(x)  # returns before the program has run
        if hvd.rank() == 0:
            print(float(x[0]))
        {ending}
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["51.0"]


@pytest.mark.parametrize("size", [2, 100_000], ids=["small", "large"])
def test_a_lost_rank_is_an_exception_that_names_it_and_the_others_live(run, size):
    ended = run(
        f"""
        import os, signal, jax, dabke, dabke.jax as hvd
        jnp = jax.numpy
        hvd.init()
        step = jax.jit(lambda x: hvd.allreduce(x * 2, hvd.Sum, 'w'))
        step(jnp.ones({size})).block_until_ready()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for attempt in (lambda: hvd.synchronize(step(jnp.ones({size}))), lambda: hvd.allreduce(jnp.ones({size}))):
            try:
                with hvd.dabke_errors():
                    attempt()
            except dabke.errors.PeerLostError as error:
                print('lost', 'rank 1' in str(error), isinstance(error, hvd.HorovodInternalError), flush=True)
        print('alive', float(jax.jit(lambda x: x + 1)(1.0)), flush=True)
        """,
        to_the_last=True,
    )
    assert ended.lines_of(0) == ["lost True True", "lost True True", "alive 2.0"], ended.output


@pytest.mark.parametrize("is_first", [False, True], ids=["before init", "after init"])
def test_jax_distributed_needs_no_arguments(run, is_first):
    begin = "hvd.init(); jax.distributed.initialize()"
    if not is_first:
        begin = "jax.distributed.initialize(); hvd.init()"
    ended = run(f"""
        import jax, dabke.jax as hvd
        {begin}
        print(jax.process_index() == hvd.rank(), jax.process_count(), len(jax.local_devices()))
        print(float(jax.jit(lambda x: hvd.allreduce(x, hvd.Sum))(jax.numpy.float32(1))))
        hvd.barrier()
        jax.distributed.shutdown()
    """)
    assert ended.code == 0, ended.output
    for rank in range(2):
        assert ended.lines_of(rank) == ["True 2 1", "2.0"]


def test_a_program_over_several_devices_of_a_process_is_refused(run):
    ended = run(
        """
        import jax, numpy, dabke.jax as hvd
        hvd.init()
        mesh = jax.sharding.Mesh(numpy.array(jax.devices()), 'x')
        where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('x'))
        x = jax.device_put(jax.numpy.ones(4), where)
        try:
            jax.jit(hvd.allreduce)(x)
        except hvd.DabkeError as error:
            print(error)
        print(hvd.allreduce(x, hvd.Sum).tolist())
        """,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
    assert ended.code == 0, ended.output
    refused, result = ended.lines_of(0)
    assert "runs on 2 devices of this process" in refused
    assert result == "[2.0, 2.0, 2.0, 2.0]"


def test_dtypes_of_64_bits_follow_jaxs_setting(run):
    ended = run(
        """
        import jax, numpy, dabke.jax as hvd
        hvd.init()
        x = numpy.full(2, 2.0**40 + hvd.rank())
        for way in (jax.jit, lambda f: f):
            y = way(lambda x: hvd.allreduce(x, hvd.Max))(x)
            print(y.dtype, float(y[0]) == 2.0**40 + 1)
        """,
        env={"JAX_ENABLE_X64": "1"},
    )
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["float64 True"] * 2


def test_one_thread_is_enough(run):
    """Ranks with one core: no thread of XLA is held by a call that the others need."""
    ended = run(
        """
        import os, jax, dabke.jax as hvd
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        jnp = jax.numpy
        hvd.init()
        program = jax.jit(lambda x: [hvd.allreduce(x * i, hvd.Sum, f'n{i}') for i in range(40)])
        results = program(jnp.ones(1000))
        print(sum(float(each[0]) for each in results))
        """
    )
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == [str(2.0 * sum(range(40)))]


def test_arrays_of_another_platform_travel_by_the_host_with_one_notice(run):
    """The rule of platforms without a handler, here in place of that of the host."""
    ended = run("""
        import warnings, jax, dabke.jax as hvd
        from dabke.jax import internals, primitives
        import functools
        hvd.init()
        primitives._prepare()
        rule = functools.partial(primitives._lower_by_host, 'allreduce')
        internals.register_rule(primitives.allreduce_p, rule, 'cpu')
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter('always')
            for size in (2, 3):
                total = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum))(jax.numpy.ones(size))
                print(total.tolist())
        print([str(each.message) for each in seen if 'copied to the host' in str(each.message)].__len__())
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["[2.0, 2.0]", "[2.0, 2.0, 2.0]", "1"]


def test_the_example_learns_and_goes_on_from_its_checkpoint(tmp_path):
    pytest.importorskip("optax")
    example, saved = ROOT / "examples" / "jax_digits.py", tmp_path / "digits.pkl"
    command = [sys.executable, str(example), "--checkpoint", str(saved)]
    for ranks, epochs, first in ((2, 5, "epoch  1/5"), (1, 6, "epoch  6/6")):
        done = subprocess.run(
            [os.environ["DABKERUN"], "-np", str(ranks), *command, "--epochs", str(epochs)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line for line in done.stdout.splitlines() if "epoch" in line]
        assert first in lines[0]
        reached = float(done.stdout.rsplit("accuracy ", 1)[1].split(" %")[0])
        assert reached > 90, done.stdout
