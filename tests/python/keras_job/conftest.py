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


# Cases of which one job is enough: that of two ranks on PyTorch. They are about code that is the same on all
# backends. DABKE_TEST_MATRIX=full runs them in all jobs. Parts of the tests' names, and kinds.
ONCE = (
    "test_warmup.py",
    "test_names.py::test_a_name",
    "test_names.py::test_the",
    "test_names.py::test_numbers",
    "test_all_ranks_begin_with_the_state_of_the_root[first]",
    "test_local_variables_keep_their_values",
    "test_momentum_is_corrected_when_the_rate_changes[SGD-False]",
    "test_momentum_is_corrected_when_the_rate_changes[RMSprop",
    "test_rank_0_alone_has_a_progress_bar",
    "test_uneven_steps_do_not_hang_and_all_ranks_end_with_the_same_state[join first]",
    "test_fit_goes_on_in_the_midst_of_an_epoch_as_if_nothing_had_happened[change]",
    "test_commits_can_be_made_at_the_end_of_epochs_only",
    "test_a_file_is_read_with_and_without_dabke[loss scale",
    "test_an_optimizer_that_the_program_registers",
    "test_load_model_takes_the_programs_own_optimizers",
    "test_weights_alone_are_saved_and_loaded",
    "test_fit_gives_the_weights_of_one_process[momentum]",
    "test_groups_may_be_lists_of_variables",
    "test_several_passes_per_step_are_one_larger_batch[momentum-True]",
    "test_several_passes_per_step_are_one_larger_batch[global_clipnorm",
    "test_a_large_rate_needs_a_warm_up[2]",
    "test_a_large_rate_needs_a_warm_up[3]",
    "test_the_form_in_which_gradients_travel_does_not_matter[num_groups]",
    "test_the_form_in_which_gradients_travel_does_not_matter[named]",
)
RARE = {"accumulation", "adamw", "clipnorm", "lion", "loss_scale_factor", "rmsprop", "schedule", "sgd"}
# On TensorFlow too, as the one backend with sparse gradients.
OF_SPARSE_GRADIENTS = "test_an_embedding_trains_as_in_one_process"


def is_once(item):
    if OF_SPARSE_GRADIENTS in item.nodeid:
        return os.environ.get("KERAS_BACKEND") != "tensorflow"
    kind = item.callspec.params.get("kind") if hasattr(item, "callspec") else None
    return kind in RARE or any(each in item.nodeid for each in ONCE)


def pytest_collection_modifyitems(config, items):
    is_the_one = (os.environ.get("KERAS_BACKEND"), os.environ.get("DABKE_SIZE")) == ("torch", "2")
    if os.environ.get("DABKE_TEST_MATRIX") == "full" or is_the_one:
        return
    dropped = [item for item in items if is_once(item)]
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


@pytest.fixture(scope="session")
def job():
    return Job()
