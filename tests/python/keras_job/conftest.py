"""Tests of Keras that run in all ranks of one job at the same time, once for each of Keras's backends.

KERAS_BACKEND=jax dabkerun -np N python -m pytest tests/python/keras_job

As in tests/python/in_job, a test is one program that all ranks run. Keras has one backend for a whole
process, so run.py starts a job for each.
"""

import inspect
import os

import pytest

numpy = pytest.importorskip("numpy")
pytest.importorskip("keras")
pytest.importorskip(os.environ.get("KERAS_BACKEND", "torch"))

import dabke  # noqa: E402
from dabke._frontend.names import forget_names  # noqa: E402

LIMITS = {"STALL_CHECK_TIME_SECONDS": 20, "STALL_SHUTDOWN_TIME_SECONDS": 120}


# Cases of which one backend is enough, unless DABKE_TEST_MATRIX=full: files and parameters.
ONCE = (
    "test_warmup.py",
    "test_names.py::test_a_name",
    "test_names.py::test_the",
    "test_names.py::test_numbers",
)
RARE = {"accumulation", "adamw", "clipnorm", "lion", "loss_scale_factor", "rmsprop", "schedule", "sgd"}


def pytest_collection_modifyitems(config, items):
    if os.environ.get("DABKE_TEST_MATRIX") == "full" or os.environ.get("KERAS_BACKEND") == "torch":
        return
    dropped = [
        item
        for item in items
        if any(each in item.nodeid for each in ONCE)
        or getattr(item, "callspec", None)
        and item.callspec.params.get("kind") in RARE
    ]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


def pytest_sessionstart(session):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    dabke.init(settings={**LIMITS, "JOIN": "dabke"})


def pytest_sessionfinish(session):
    dabke.shutdown()


@pytest.fixture(autouse=True)
def same_beginning():
    """Resynchronises the ranks after a failed test, and gives every test the same seeds."""
    import keras

    forget_names()
    dabke.barrier()
    # Without a collection of garbage, which takes longer than most tests: a framework has many objects. The
    # first versions of Keras 3 collect none.
    can_keep = "free_memory" in inspect.signature(keras.utils.clear_session).parameters
    keras.utils.clear_session(**({"free_memory": False} if can_keep else {}))
    keras.utils.set_random_seed(3)


class Job:
    """The test's view of the job, with data that is the same on all ranks."""

    def __init__(self):
        self.rank, self.size = dabke.rank(), dabke.size()

    def data(self, rows, features=4, outputs=3, seed=0):
        """Inputs [rows, features] and targets [rows, outputs] of a noisy linear function, as float32."""
        random = numpy.random.default_rng(seed)
        x = random.normal(size=(rows, features))
        y = x @ random.normal(size=(features, outputs)) + 0.1 * random.normal(size=(rows, outputs))
        return x.astype("float32"), y.astype("float32")

    def own(self, *arrays):
        """This rank's rows: batch i of all ranks together is batch i of the whole arrays."""
        return [each[self.rank :: self.size] for each in arrays]

    def is_equal(self, array):
        """Returns True if all ranks have the same bits."""
        whole = dabke.allgather(numpy.asarray(array).reshape(1, -1))
        return all(numpy.array_equal(whole[0], each, equal_nan=True) for each in whole)


@pytest.fixture
def job():
    return Job()
