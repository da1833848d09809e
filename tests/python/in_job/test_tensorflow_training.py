"""Training by the ranks together gives what one process gets from all their batches as one."""

import numpy
import pytest

import dabke

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")

PIXELS, CLASSES, BATCH = 12, 4, 6
TWO_RANKS = pytest.mark.two_ranks


def batches(job, steps):
    """The images and labels of all ranks, by step."""
    random = numpy.random.default_rng(5)
    shape = (steps, job.size * BATCH)
    return random.random((*shape, PIXELS)).astype("float64"), random.integers(0, CLASSES, shape)


class Model:
    """Two layers, equal on all ranks."""

    def __init__(self):
        random = numpy.random.default_rng(3)
        shapes = [(PIXELS, 8), (8,), (8, CLASSES), (CLASSES,)]
        self.weights = [tf.Variable(random.normal(size=shape) / 4, dtype=tf.float64) for shape in shapes]

    def loss(self, images, labels):
        hidden = tf.tanh(images @ self.weights[0] + self.weights[1])
        logits = hidden @ self.weights[2] + self.weights[3]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def own_part(job, images, labels):
    part = slice(job.rank * BATCH, (job.rank + 1) * BATCH)
    return tf.constant(images[part]), tf.constant(labels[part])


def joined(job, steps, make_optimizer):
    """The weights after training by one process."""
    model, optimizer = Model(), make_optimizer()
    for images, labels in zip(*batches(job, steps)):
        with tf.GradientTape() as tape:
            loss = model.loss(tf.constant(images), tf.constant(labels))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))
    return model.weights


def same(got, want):
    for mine, theirs in zip(got, want):
        numpy.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-9)


def test_a_tape_gives_the_gradients_of_the_joined_batch(job, way):
    model = Model()
    optimizer = tf.keras.optimizers.SGD(0.5)
    optimizer.build(model.weights)
    data = batches(job, 1)
    images, labels = own_part(job, data[0][0], data[1][0])

    def gradients():
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = model.loss(images, labels)
        return tape.gradient(loss, model.weights)

    with tf.GradientTape() as tape:
        loss = model.loss(tf.constant(data[0][0]), tf.constant(data[1][0]))
    for got, want in zip(way(gradients), tape.gradient(loss, model.weights)):
        numpy.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize(
    "mode",
    [pytest.param("eager", marks=TWO_RANKS), "async", pytest.param("blocking", marks=TWO_RANKS)],
)
@pytest.mark.parametrize("kind", ["tape", "keras", pytest.param("v1", marks=TWO_RANKS)])
def test_the_same_start_gives_the_same_weights(job, monkeypatch, mode, kind):
    if mode != "eager":
        monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", mode)
    model = Model()
    makers = {"v1": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)}
    make = makers.get(kind, lambda: tf.keras.optimizers.Adam(0.05))
    plain = optimizer = make()
    if kind != "tape":
        optimizer = hvd.DistributedOptimizer(optimizer)
        assert isinstance(optimizer, type(plain)) and type(optimizer).__name__ == type(plain).__name__

    def step(images, labels):
        if kind == "v1":
            optimizer.apply_gradients(
                optimizer.compute_gradients(lambda: model.loss(images, labels), model.weights)
            )
            return
        with tf.GradientTape() as tape:
            loss = model.loss(images, labels)
        if kind == "tape":
            tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))

    run = step if mode == "eager" else tf.function(step)
    for images, labels in zip(*batches(job, 4)):
        run(*own_part(job, images, labels))
    same(model.weights, joined(job, 4, make))


@pytest.mark.two_ranks
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_several_passes_are_added_before_they_are_reduced(job, average, traced):
    weight = tf.Variable([4.0, 8.0])
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2, average_aggregated_gradients=average
    )

    def step(factor):
        optimizer.apply_gradients([(factor * tf.constant([1.0, 2.0]) * (job.rank + 1), weight)])

    run = tf.function(step) if traced else step
    mean = (job.size + 1) / 2
    for passes in range(1, 5):
        before = weight.numpy()
        run(tf.constant(float(passes)))
        if passes % 2:
            numpy.testing.assert_array_equal(weight, before)
        else:
            total = (2 * passes - 1) / (2 if average else 1)
            numpy.testing.assert_allclose(weight, before - total * mean * numpy.array([1, 2]), rtol=1e-6)
    assert int(optimizer.iterations) == 2


def test_sparse_gradients_and_those_that_are_none(job, way):
    table, unused, dense = tf.Variable(tf.ones([5, 2])), tf.Variable(1.0), tf.Variable(2.0)
    for as_dense in (False, True):

        def gradients():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, [job.rank, 4])) * (job.rank + 1) + dense
            tape = hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense)
            found = tape.gradient(loss, {"table": table, "unused": unused, "dense": dense})
            assert found["unused"] is None and isinstance(found["table"], tf.IndexedSlices) != as_dense
            return tf.convert_to_tensor(found["table"]), found["dense"]

        got, of_dense = way(gradients)
        want = numpy.zeros((5, 2))
        for rank in range(job.size):
            want[rank] += (rank + 1) / job.size
            want[4] += (rank + 1) / job.size
        numpy.testing.assert_allclose(got, want, rtol=1e-6)
        assert float(of_dense) == 1


@pytest.mark.two_ranks
def test_groups_and_factors_change_nothing_of_the_result(job, way):
    variables = [tf.Variable(tf.ones([i + 1], tf.float64)) for i in range(5)]

    def gradients(**options):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each**2) for each in variables]) * (job.rank + 1)
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, variables)

    want = [numpy.full(i + 1, job.size + 1.0) for i in range(5)]
    for options in (
        {"num_groups": 2},
        {"groups": 3},
        {"groups": [variables[3:], variables[:1]]},
        {"gradient_predivide_factor": 2.0},
        {"compression": hvd.Compression.fp16},
    ):
        for got, each in zip(way(lambda: gradients(**options)), want):
            numpy.testing.assert_allclose(got, each, rtol=1e-3)


def test_local_gradients_are_a_ranks_own(job):
    layer = tf.keras.layers.Dense(1, use_bias=False)
    layer.build([None, 1])
    shared = tf.Variable(1.0)
    for scaled in (True, False):
        tape = hvd.PartialDistributedGradientTape(
            tf.GradientTape(), local_layers=layer, scale_local_gradients=scaled
        )
        own = layer.trainable_weights[0]
        with tape:
            loss = (tf.reduce_sum(own.value) + shared) * (job.rank + 1)
        sources = [own.value, shared]
        found = tape.gradient(loss, sources)
        assert float(found[0][0, 0]) == pytest.approx((job.rank + 1) / (job.size if scaled else 1))
        assert float(found[1]) == (job.size + 1) / 2
        local, reduced = tape.get_local_and_global_gradients(sources, found)
        assert [len(local), len(reduced)] == [1, 1] and reduced[0][1] is shared


@pytest.mark.two_ranks
def test_what_makes_no_sense_is_refused(job):
    errors = dabke.errors
    with pytest.raises(errors.UnimplementedError, match="Adasum"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Adasum)
    with pytest.raises(errors.InvalidArgumentError, match="already"):
        hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))
    with pytest.raises(errors.InvalidArgumentError, match="already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(tf.keras.optimizers.SGD()))
    with pytest.raises(errors.InvalidArgumentError, match="expected an optimizer of Keras 3"):
        hvd.DistributedOptimizer(object())
    with pytest.raises(errors.InvalidArgumentError, match="needs op=Average"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(errors.InvalidArgumentError, match="at least 1"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), backward_passes_per_step=0)


@pytest.mark.parametrize("traced", [False, True])
def test_batch_normalization_is_that_of_the_joined_batch(job, traced):
    images = numpy.random.default_rng(1).normal(3, 2, (job.size * 4, 3, 5)).astype("float32")
    weights = numpy.random.default_rng(2).normal(size=images.shape).astype("float32")
    ours, plain = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    part = slice(4 * job.rank, 4 * job.rank + 4)

    def run(layer, inputs, factors):
        x = tf.Variable(inputs)

        def step():
            with tf.GradientTape() as tape:
                y = layer(x, training=True)
                loss = tf.reduce_sum(y * factors)
            return y, tape.gradient(loss, x)

        layer.build(inputs.shape)
        return (tf.function(step) if traced and layer is ours else step)()

    got, want = run(ours, images[part], weights[part]), run(plain, images, weights)
    for mine, all_of_it in zip(got, want):
        numpy.testing.assert_allclose(mine, all_of_it.numpy()[part], rtol=2e-3, atol=2e-4)
    numpy.testing.assert_allclose(ours.moving_variance, plain.moving_variance, rtol=1e-4)
    numpy.testing.assert_allclose(ours(images), plain(images), rtol=1e-3, atol=1e-4)


def test_ranks_that_have_joined_are_waited_for(job):
    for step in range(job.rank + 1):
        hvd.allreduce(tf.ones([2]), op=hvd.Sum, name=f"join.{step}")
    assert hvd.join() in range(job.size)


@pytest.mark.two_ranks
@pytest.mark.parametrize("passes", [1, 2])
def test_keras_fits_with_a_distributed_optimizer(job, passes):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([PIXELS]), tf.keras.layers.Dense(CLASSES)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.05), backward_passes_per_step=passes)
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images, labels = batches(job, 4)
    part = slice(job.rank * BATCH, (job.rank + 1) * BATCH)
    before = model.get_weights()[0]
    model.fit(
        images[:, part].reshape(-1, PIXELS),
        labels[:, part].ravel(),
        batch_size=BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    assert int(optimizer.iterations) == 8 // passes and (model.get_weights()[0] != before).any()
    for weight in model.get_weights():
        numpy.testing.assert_array_equal(hvd.broadcast(weight, 0), weight)
