"""Elastic training with JAX: states of pytrees, and failures inside of JAX's errors."""

import numpy
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dabke.jax as hvd  # noqa: E402
from dabke._frontend.elastic import failures  # noqa: E402
from dabke.errors import MismatchError  # noqa: E402
from dabke.jax.optimizer import AccumulatedState  # noqa: E402
from elastic_epochs import Epochs  # noqa: E402

pytestmark = pytest.mark.two_ranks


@pytest.fixture
def epochs(monkeypatch):
    return Epochs(monkeypatch)


def tree(value):
    return {
        "layers": [jnp.full((3, 4), value, jnp.float32), jnp.full((2,), value, jnp.bfloat16)],
        "count": jnp.int32(value),
        "rate": float(value),
        "none": None,
    }


def check(found, value):
    leaves, form = jax.tree_util.tree_flatten(found)
    wanted, wanted_form = jax.tree_util.tree_flatten(tree(value))
    assert form == wanted_form
    for mine, theirs in zip(leaves, wanted):
        assert type(mine) is type(theirs)
        if isinstance(theirs, jax.Array):
            assert mine.dtype == theirs.dtype
        numpy.testing.assert_array_equal(numpy.asarray(mine), numpy.asarray(theirs))


def test_pytrees_and_random_keys_arrive_by_sync(job, epochs):
    state = hvd.elastic.ObjectState(
        parameters=tree(job.rank),
        key=jax.random.key(job.rank),
        old_key=jax.random.PRNGKey(job.rank),
        step=job.rank,
    )
    state.sync()
    check(state.parameters, 0)
    assert state.step == 0
    assert jax.random.key_data(state.key).tolist() == jax.random.key_data(jax.random.key(0)).tolist()
    assert state.old_key.tolist() == jax.random.PRNGKey(0).tolist()
    if job.rank == job.size - 1:
        state.parameters, state.key = tree(5), jax.random.key(9)
        state.commit()
    epochs.begin(newest=1, holders=(job.size - 1,))
    state.sync()
    check(state.parameters, 5)
    assert jax.random.key_data(state.key).tolist() == jax.random.key_data(jax.random.key(9)).tolist()


def test_a_commit_outlives_arrays_that_a_step_takes_as_donated(job, epochs):
    step = jax.jit(lambda values: jax.tree_util.tree_map(lambda each: each + 1, values), donate_argnums=0)
    state = hvd.elastic.ObjectState(values=[jnp.arange(1000.0), jnp.ones(3)])
    state.sync()
    for _ in range(3):
        state.values = step(state.values)
    state.commit()
    wanted = [numpy.array(each) for each in state.values]
    for _ in range(2):
        for _ in range(2):
            state.values = step(state.values)
        state.save()  # writes the other copy
        state.values = step(state.values)
        state._saved, state._spare = state._spare, state._saved
        state.restore()
        for mine, theirs in zip(state.values, wanted):
            numpy.testing.assert_array_equal(mine, theirs)


def test_a_failure_inside_of_an_error_of_jax_is_found(job, epochs):
    """The ranks disagree about a shape in a jitted program: an error of ours that is not the job's failure.
    A text of a lost rank is."""
    with pytest.raises(Exception) as found:
        jax.block_until_ready(jax.jit(lambda x: hvd.allreduce(x, name="x"))(jnp.ones(3 + job.rank)))
    assert not isinstance(found.value, MismatchError)
    assert failures.failure_in(found.value) is None

    state = hvd.elastic.ObjectState(step=0)
    epochs.then(newest=0, holders=range(job.size))

    @hvd.elastic.run
    def train(state):
        if not epochs.left:
            raise RuntimeError("INTERNAL: [dabke peer_lost] rank 3 on host b has ended")
        return "went on"

    assert train(state) == "went on"


def test_training_goes_on_after_a_failure(job, epochs):
    state = hvd.elastic.ObjectState(weights=jnp.full(4, float(job.rank)), step=0)
    epochs.then(newest=2, holders=(0,))

    @jax.jit
    def step(weights):
        return weights + hvd.allreduce(weights * 0 + 1, name="gradients")

    @hvd.elastic.run
    def train(state):
        while state.step < 5:
            state.weights = step(state.weights)
            state.step += 1
            if state.step == 3 and not epochs.left:
                raise hvd.HorovodInternalError("lost")
            state.commit()
        return state.weights

    assert train(state).tolist() == [5.0] * 4


def test_passes_that_did_not_complete_a_step_are_dropped(job, epochs):
    """The last rank is new. It gets the sums of rank 0, and drops them like all others."""
    is_new = job.rank == job.size - 1
    done = AccumulatedState({"trace": jnp.ones(2)}, [jnp.full(3, 5.0)], jnp.int32(1))
    none = AccumulatedState({"trace": jnp.zeros(2)}, [jnp.zeros(3)], jnp.int32(0))
    state = hvd.elastic.ObjectState(optimizer=(none if is_new else done, "rest"), step=0)
    if not is_new:
        state._number = 6
        state.commit()
    epochs.begin(newest=7, holders=range(job.size - 1), former_ranks=(*range(job.size - 1), -1))
    state._begin_epoch()
    found, rest = state.optimizer
    assert isinstance(found, AccumulatedState) and rest == "rest"
    assert found.inner["trace"].tolist() == [1.0, 1.0]
    assert found.sums[0].tolist() == [0.0] * 3 and int(found.passes) == 0
