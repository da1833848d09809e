"""Tests that run in all ranks of one job at the same time: dabkerun -np N python -m pytest
tests/python/in_job.

Each rank runs the same tests in the same order, so a test is one program that all ranks run. Its rank is
`dabke.rank()`. Random values are the same on all ranks. An operation that waits longer than two minutes
fails, so a rank that fails a test does not block the others.
"""

import numpy
import pytest
from hypothesis import settings

import dabke
from dabke._frontend.names import forget_names

settings.register_profile("job", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("job")


def pytest_sessionstart(session):
    dabke.init(settings={"STALL_CHECK_TIME_SECONDS": 20, "STALL_SHUTDOWN_TIME_SECONDS": 120})


def pytest_sessionfinish(session):
    dabke.shutdown()


@pytest.fixture(autouse=True)
def same_beginning():
    """Resynchronises the ranks after a failed test: they meet again at the next test."""
    forget_names()
    dabke.barrier()


class Job:
    """The test's view of the job: the inputs of all ranks, of which each rank takes its own."""

    def __init__(self):
        self.rank, self.size = dabke.rank(), dabke.size()

    def inputs(self, shape, dtype, seed=0):
        """A list with a different array for each rank, the same list on all ranks. The numbers are small, so
        that sums are exact."""
        return [self.input(rank, shape, dtype, seed) for rank in range(self.size)]

    def input(self, rank, shape, dtype, seed=0):
        random = numpy.random.default_rng([seed, rank])
        dtype = numpy.dtype(dtype)
        if dtype == bool:
            return random.random(shape) < 0.5
        low = 0 if dtype.kind == "u" else -4
        return random.integers(low, 5, shape).astype(dtype)


@pytest.fixture
def job():
    return Job()


@pytest.fixture(params=["eager", "async", pytest.param("blocking", marks=pytest.mark.two_ranks)])
def way(request, monkeypatch):
    """Calls a function of TensorFlow without arguments: in eager mode, or in a graph of either way.

    A graph is traced anew, and runs twice.
    """
    tf = pytest.importorskip("tensorflow")
    if request.param == "eager":
        return lambda function: function()
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", request.param)

    def traced(function):
        compiled = tf.function(function)
        compiled()
        return compiled()

    return traced
