"""Elastic training with TensorFlow: states of variables, and failures inside of TensorFlow's errors."""

import numpy
import pytest

tf = pytest.importorskip("tensorflow")

import dabke.tensorflow as hvd  # noqa: E402
from dabke._frontend.elastic import failures  # noqa: E402
from dabke.errors import InvalidArgumentError, PeerLostError, UnimplementedError  # noqa: E402
from elastic_epochs import Epochs  # noqa: E402

pytestmark = pytest.mark.two_ranks


@pytest.fixture
def epochs(monkeypatch):
    return Epochs(monkeypatch)


def test_variables_arrive_by_sync_and_are_restored(job, epochs):
    variables = [tf.Variable(tf.fill([3, 2], float(job.rank))), tf.Variable(job.rank, dtype=tf.int64)]
    state = hvd.elastic.TensorFlowState(variables=variables, step=job.rank)
    state.sync()
    assert variables[0].numpy().tolist() == [[0.0] * 2] * 3 and variables[1].numpy() == 0 and state.step == 0
    variables[0].assign_add(tf.ones([3, 2]))
    state.commit()
    variables[0].assign_add(tf.ones([3, 2]))
    state.restore()
    assert variables[0].numpy().tolist() == [[1.0] * 2] * 3
    if job.rank == job.size - 1:
        variables[0].assign(tf.fill([3, 2], 6.0))
        state.commit()
    epochs.begin(newest=2, holders=(job.size - 1,))
    state.sync()
    assert variables[0].numpy().tolist() == [[6.0] * 2] * 3


def test_a_state_of_a_keras_model_has_its_optimizer(job, epochs):
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras runs on another backend")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.1), loss="mse")
    state = hvd.elastic.TensorFlowKerasState(model, epoch=0)
    state.sync()
    model.fit(numpy.ones((4, 3)), numpy.ones((4, 2)), verbose=0)
    state.commit()
    wanted = [each.numpy() for each in [*model.weights, *model.optimizer.variables]]
    model.fit(numpy.ones((4, 3)), numpy.zeros((4, 2)), verbose=0)
    state.restore()
    for variable, value in zip([*model.weights, *model.optimizer.variables], wanted, strict=True):
        numpy.testing.assert_array_equal(variable.numpy(), value)


def test_wrong_arguments_are_refused(job):
    with pytest.raises(InvalidArgumentError, match="expected variables, got int"):
        hvd.elastic.TensorFlowState(variables=[3])
    with pytest.raises(UnimplementedError, match="sessions of TensorFlow 1"):
        hvd.elastic.TensorFlowState(session=object())


def test_a_failure_inside_of_an_error_of_tensorflow_is_found(job, epochs):
    @tf.function
    def reduce(value):
        return hvd.allreduce(value, name="reduced")

    with pytest.raises(tf.errors.OpError) as found:
        reduce(tf.ones([3 + job.rank]))  # the ranks disagree: an error of ours, but not the job's failure
    assert failures.failure_in(found.value) is None

    lost = tf.errors.AbortedError(None, None, "wrapped")
    lost._experimental_payloads = {b"dabke.status": b"peer_lost", b"dabke.text": b"rank 3 is lost"}
    failure = failures.failure_in(lost)
    assert isinstance(failure, PeerLostError) and str(failure) == "rank 3 is lost"


def test_a_graph_goes_on_after_a_failure(job, epochs):
    weights = tf.Variable(tf.fill([4], float(job.rank)))
    state = hvd.elastic.TensorFlowState(variables=[weights], step=0)
    epochs.then(newest=2, holders=(0,))

    @tf.function
    def step():
        weights.assign_add(hvd.allreduce(tf.ones([4]), name="gradients"))

    @hvd.elastic.run
    def train(state):
        while state.step < 5:
            step()
            state.step += 1
            if state.step == 3 and not epochs.left:
                raise PeerLostError("lost")
            state.commit()

    train(state)
    assert weights.numpy().tolist() == [5.0] * 4


@pytest.mark.parametrize("change", ["a failure", "hosts"])
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", ["keras", "v1"])
def test_passes_that_did_not_complete_a_step_are_counted_anew(job, epochs, kind, traced, change):
    weight = tf.Variable([0.0, 0.0])
    plain = {"keras": tf.keras.optimizers.SGD, "v1": tf.compat.v1.train.GradientDescentOptimizer}[kind](1.0)
    optimizer = hvd.DistributedOptimizer(plain, backward_passes_per_step=2)
    state = hvd.elastic.TensorFlowState(variables=[weight], step=0)
    epochs.then(newest=int(change == "hosts"), holders=range(job.size))

    def one_pass(factor):
        with tf.GradientTape() as tape:
            loss = factor * tf.reduce_sum(weight)
        if kind == "v1":
            pairs = optimizer.compute_gradients(lambda: factor * tf.reduce_sum(weight), [weight])
        else:
            pairs = [(tape.gradient(loss, weight), weight)]
        optimizer.apply_gradients(pairs)

    one_pass = tf.function(one_pass) if traced else one_pass

    @hvd.elastic.run
    def train(state):
        if not epochs.left:
            one_pass(tf.constant(100.0))
            if change == "a failure":
                raise PeerLostError("lost")
            epochs.changes = 1
            state.commit()
        one_pass(tf.constant(1.0))
        assert weight.numpy().tolist() == [0.0, 0.0]
        one_pass(tf.constant(2.0))
        return weight.numpy().tolist()

    assert train(state) == [-3.0, -3.0]  # of two passes
