"""A lost rank is found inside the error that a framework raises for it, in jobs that are not elastic."""

import pytest

PROGRAMS = {
    "torch": """
        import dabke.torch as hvd, torch
        hvd.init()
        torch.distributed.init_process_group("dabke")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        step = lambda: model(torch.ones(3, 4)).sum().backward()
    """,
    "jax": """
        import dabke.jax as hvd, jax
        hvd.init()
        program = jax.jit(lambda x: hvd.allreduce(x, name="x"))
        step = lambda: jax.block_until_ready(program(jax.numpy.ones(3)))
    """,
    "tensorflow": """
        import dabke.tensorflow as hvd, tensorflow as tf
        hvd.init()
        program = tf.function(lambda x: hvd.allreduce(x, name="x"))
        step = lambda: program(tf.ones(3))
    """,
}
REST = """
        import os, signal
        state = hvd.elastic.State()
        state.sync = state.save = state.restore = lambda: None

        @hvd.elastic.run
        def train(state):
            for i in range(3):
                if i == 2 and hvd.rank() == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                step()

        try:
            train(state)
        except hvd.HorovodInternalError as error:
            print(type(error).__name__, "rank 1" in str(error), "dabkerun --min-np" in str(error), flush=True)
"""


@pytest.mark.parametrize("framework", PROGRAMS)
def test_a_lost_rank_is_found_in_a_frameworks_error(run, framework):
    pytest.importorskip(framework)
    ended = run(PROGRAMS[framework] + REST, env={"TF_CPP_MIN_LOG_LEVEL": "3"}, to_the_last=True)
    assert ended.lines_of(0) == ["PeerLostError True True"], ended.output
