"""The collectives on TensorFlow's tensors, in eager mode and in graphs, against what one process computes."""

import math

import numpy
import pytest

import dabke

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()
OF_MANY_RANKS = {"bool", "int32", "bfloat16", "float32"}
DTYPE = pytest.mark.parametrize(
    "dtype",
    [pytest.param(each, marks=[] if each in OF_MANY_RANKS else pytest.mark.two_ranks) for each in DTYPES],
)


def inputs(job, shape, dtype, seed=0):
    """A tensor for each rank, equal on all ranks; bfloat16 has no NumPy type of its own."""
    plain = "float32" if dtype == "bfloat16" else dtype
    return [tf.cast(tf.constant(each), dtype) for each in job.inputs(shape, plain, seed)]


def same(got, want):
    assert got.dtype == want.dtype
    numpy.testing.assert_array_equal(got.numpy(), want.numpy())


@DTYPE
def test_every_collective_takes_every_dtype(job, way, dtype):
    all_inputs = inputs(job, (2 * job.size, 3), dtype)
    own = all_inputs[job.rank]

    def call():
        moved, splits = hvd.alltoall(own, [2] * job.size, name=f"{dtype}.s")
        return {
            "max": hvd.allreduce(own, op=hvd.Max, name=dtype),
            "rows": hvd.allgather(own[: job.rank + 1], name=dtype),
            "root": hvd.broadcast(own, job.size - 1, name=dtype),
            "moved": hvd.alltoall(own, name=dtype),
            "with_splits": moved,
            "splits": splits,
            "part": hvd.reducescatter(own, op=hvd.Max, name=dtype),
        }

    got = way(call)
    numbers = [tf.cast(each, tf.float64) for each in all_inputs]
    largest = tf.cast(tf.reduce_max(tf.stack(numbers), 0), dtype)
    same(got["max"], largest)
    same(got["rows"], tf.concat([each[: rank + 1] for rank, each in enumerate(all_inputs)], 0))
    same(got["root"], all_inputs[-1])
    blocks = tf.concat([each[2 * job.rank : 2 * job.rank + 2] for each in all_inputs], 0)
    same(got["moved"], blocks)
    same(got["with_splits"], blocks)
    assert got["splits"].dtype == tf.int32 and got["splits"].numpy().tolist() == [2] * job.size
    same(got["part"], largest[2 * job.rank : 2 * job.rank + 2])


def test_groups_travel_together_whatever_their_dtypes(job, way):
    floats, whole = inputs(job, (4, 2), "float32"), inputs(job, (3,), "int64", seed=1)

    def call():
        own = [floats[job.rank], whole[job.rank]]
        return (
            hvd.grouped_allreduce(own, op=hvd.Sum, name="sums"),
            hvd.grouped_allgather(own, name="rows"),
            hvd.grouped_reducescatter(own, op=hvd.Sum),
        )

    sums, rows, parts = way(call)
    for got, each in zip(sums, (floats, whole)):
        same(got, tf.add_n(each))
    for got, each in zip(rows, (floats, whole)):
        same(got, tf.concat(each, 0))
    for got, each in zip(parts, (floats, whole)):
        total = tf.add_n(each)
        count, more = divmod(len(total), job.size)
        first = job.rank * count + min(job.rank, more)
        same(got, total[first : first + count + (job.rank < more)])


@pytest.mark.two_ranks
def test_factors_have_all_their_digits(job, way):
    x = tf.constant([49.0], tf.float64)
    got = way(lambda: hvd.allreduce(x, op=hvd.Max, prescale_factor=1 / 3, postscale_factor=0.1, name="f"))
    assert got.numpy()[0] == 49.0 * (1 / 3) * 0.1


def test_tensors_of_odd_shapes(job, way):
    def call():
        return (
            hvd.allreduce(tf.constant(2.0), op=hvd.Sum, name="scalar"),
            hvd.allreduce(tf.zeros([0, 3]), name="empty"),
            hvd.allgather(tf.ones([job.rank, 2]), name="none of rank 0"),
            hvd.reducescatter(tf.ones([1, 2]), op=hvd.Sum, name="rank 0 alone gets rows"),
            hvd.allgather(tf.zeros([0, 2]), name="no rows"),
        )

    scalar, empty, rows, parts, none = way(call)
    assert float(scalar) == 2.0 * job.size and empty.shape == (0, 3)
    assert rows.shape == (job.size * (job.size - 1) // 2, 2)
    assert parts.shape == ((1 if job.rank == 0 else 0), 2) and none.shape == (0, 2)


@pytest.mark.two_ranks
def test_shapes_are_known_while_a_function_is_traced(job):
    seen = {}

    @tf.function
    def call(x):
        seen["reduced"] = hvd.allreduce(x, name="r").shape
        seen["rows"] = hvd.allgather(x, name="g").shape
        return x

    call(tf.ones([4, 5]))
    assert seen["reduced"] == [4, 5] and seen["rows"].as_list() == [None, 5]


def test_indexed_slices_are_gathered(job, way):
    def call():
        slices = tf.IndexedSlices(
            tf.fill([job.rank + 1, 2], float(job.rank + 1)), tf.range(job.rank + 1), [9, 2]
        )
        return [
            tf.convert_to_tensor(hvd.allreduce(slices, op=op, name=str(int(op))))
            for op in (hvd.Sum, hvd.Average)
        ]

    total, mean = way(call)
    want = numpy.zeros((9, 2))
    for rank in range(job.size):
        want[: rank + 1] += rank + 1
    numpy.testing.assert_allclose(total, want)
    numpy.testing.assert_allclose(mean, want / job.size, rtol=1e-6)
    with pytest.raises(dabke.errors.UnsupportedError, match="sparse_as_dense"):
        hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [0], [9, 2]), op=hvd.Max)


@pytest.mark.two_ranks
@pytest.mark.parametrize("kind", ["none", "fp16", "bf16"])
def test_compressed_tensors_come_back_in_their_dtype(job, way, kind):
    compression = getattr(hvd.Compression, kind)
    x = tf.ones([8], tf.float64) * (job.rank + 1)
    got = way(lambda: hvd.allreduce(x, compression=compression, op=hvd.Sum, name=kind))
    assert got.dtype == tf.float64
    numpy.testing.assert_allclose(got, job.size * (job.size + 1) / 2)
    part = way(lambda: hvd.reducescatter(x, compression=compression, op=hvd.Sum, name=kind))
    assert part.dtype == tf.float64


def test_process_sets_reduce_among_themselves(job, way):
    halves = [
        dabke.add_process_set([rank for rank in range(job.size) if rank % 2 == odd]) for odd in range(2)
    ]
    mine = halves[job.rank % 2]

    def call():
        return hvd.allreduce(tf.constant(float(job.rank)), op=hvd.Sum, process_set=mine, name="half")

    assert float(way(call)) == sum(mine.ranks)
    assert int(hvd.size_op(mine.process_set_id)) == mine.size()
    assert int(hvd.process_set_included_op(halves[1 - job.rank % 2].process_set_id)) == 0
    for each in halves:
        dabke.remove_process_set(each)


@pytest.mark.two_ranks
def test_numbers_are_those_of_the_job_when_they_run(job, way):
    got = way(lambda: [hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()])
    assert [int(each) for each in got] == [job.rank, job.size, hvd.local_rank(), hvd.local_size()]


# ---- errors ----


@pytest.mark.two_ranks
def test_eager_errors_are_ours_with_the_whole_text(job):
    with pytest.raises(dabke.errors.MismatchError) as caught:
        hvd.allreduce(tf.ones([job.rank + 1]), name="uneven")
    assert str(caught.value).startswith("Mismatched shape for 'allreduce.uneven'")
    assert "[Op:" not in str(caught.value)
    with pytest.raises(dabke.errors.InvalidArgumentError, match="alltoall.splits"):
        hvd.alltoall(tf.ones([3]), [1] * (job.size + 1), name="splits")


@pytest.mark.two_ranks
def test_errors_of_graphs_are_tensorflows_with_our_text(job, monkeypatch):
    for kernels in ("async", "blocking"):
        monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", kernels)

        @tf.function
        def call():
            return hvd.allreduce(tf.ones([job.rank + 1]), name="uneven")

        with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatched shape for 'allreduce.uneven'"):
            call()
        assert float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="after")) == job.size


@pytest.mark.two_ranks
def test_what_cannot_be_is_refused_with_what_to_do(job):
    with pytest.raises(dabke.errors.UnimplementedError, match="Average"):
        hvd.allreduce(tf.ones(2), op=hvd.Adasum)
    with pytest.raises(dabke.errors.InvalidArgumentError, match="pass only op"):
        hvd.allreduce(tf.ones(2), average=True, op=hvd.Sum)
    with pytest.raises(dabke.errors.UnsupportedError, match="jit_compile"):
        tf.function(lambda: hvd.allreduce(tf.ones(2)), jit_compile=True)()
    with pytest.raises(NotImplementedError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)
    with pytest.raises(NotImplementedError, match="broadcast_variables"):
        hvd.BroadcastGlobalVariablesHook(0)
    with pytest.raises(NotImplementedError, match="session"):
        hvd.broadcast_object(1, session=object())
    with pytest.raises(NotImplementedError, match="shard"):
        hvd.data.compute_service.tf_data_service(None, 0)
    with pytest.raises(dabke.errors.UnimplementedError, match="eager"):
        tf.function(lambda: tf.constant(hvd.join()))()


@pytest.mark.two_ranks
def test_a_wrong_value_of_the_variable_is_named(monkeypatch):
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", "fast")
    with pytest.raises(dabke.errors.InvalidArgumentError, match="DABKE_TENSORFLOW_KERNELS is 'fast'"):
        tf.function(lambda: hvd.allreduce(tf.ones(2)))()


# ---- objects and variables ----


def test_objects_and_variables_come_from_the_root(job, way):
    assert hvd.broadcast_object({"rank": job.rank}, 1) == {"rank": 1}
    assert hvd.broadcast_object_fn(0)(job.rank) == 0
    assert hvd.allgather_object(job.rank) == list(range(job.size))
    variables = [tf.Variable(tf.fill([3], float(job.rank))), tf.Variable(job.rank, dtype=tf.int64)]
    way(lambda: hvd.broadcast_variables(variables, 1))
    assert [each.numpy().max() for each in variables] == [1, 1]
    way(lambda: hvd.broadcast_([variables[0]], 1, name="again"))
    with pytest.raises(dabke.errors.InvalidArgumentError, match="got int"):
        hvd.broadcast_variables([3], 0)


@pytest.mark.two_ranks
def test_the_state_of_an_optimizer_of_keras_comes_from_the_root(job):
    weight = tf.keras.Variable(tf.fill([3], float(job.rank)))
    optimizer = tf.keras.optimizers.Adam(0.1 * (job.rank + 1))
    optimizer.build([weight])
    hvd.broadcast_variables(optimizer, 0)
    hvd.broadcast_variables([weight], 0)
    assert float(optimizer.learning_rate) == pytest.approx(0.1) and float(weight[0]) == 0
    assert all(hvd.allgather_object(float(optimizer.learning_rate)))


FACTORS_OF = {
    "allreduce": lambda **how: hvd.allreduce(tf.ones(2), op=hvd.Sum, **how),
    "grouped_allreduce": lambda **how: hvd.grouped_allreduce([tf.ones(2)], op=hvd.Sum, **how)[0],
    "reducescatter": lambda **how: hvd.reducescatter(tf.ones(2 * dabke.size()), op=hvd.Sum, **how),
}


@pytest.mark.two_ranks
@pytest.mark.parametrize("factor", ["prescale_factor", "postscale_factor"])
@pytest.mark.parametrize("call", FACTORS_OF)
def test_a_zero_factor_keeps_its_sign_whichever_came_first(way, call, factor):
    for zero in (0.0, -0.0, 0.0, -0.0):
        result = way(lambda: FACTORS_OF[call](**{factor: zero})).numpy()
        assert not result.any() and set(numpy.signbit(result).tolist()) == {math.copysign(1, zero) < 0}


@pytest.mark.two_ranks
@pytest.mark.parametrize("name", ["w\0a", "w\udc80"], ids=["NUL", "no UTF-8"])
@pytest.mark.parametrize(
    "call",
    [
        lambda name: hvd.allreduce(tf.ones(2), name=name),
        lambda name: hvd.grouped_allreduce([tf.ones(2)], name=name),
        lambda name: hvd.allgather(tf.ones(2), name=name),
        lambda name: hvd.broadcast(tf.ones(2), 0, name=name),
        lambda name: hvd.alltoall(tf.ones(2 * dabke.size()), name=name),
        lambda name: hvd.reducescatter(tf.ones(2), name=name),
    ],
    ids=["allreduce", "group", "allgather", "broadcast", "alltoall", "reducescatter"],
)
def test_a_name_that_would_be_cut_or_has_no_utf8_is_refused_and_shown(way, call, name):
    with pytest.raises(dabke.errors.InvalidArgumentError) as refused:
        way(lambda: call(name))
    assert name.encode("unicode_escape").decode() in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.two_ranks
def test_any_other_name_is_passed_as_a_whole(way):
    names = [f"Schicht \u00e4{end}" for end in ("", "\u20ac", "\U0001f680", "\x01", "\n", "\\0")]
    got = way(lambda: [hvd.allreduce(tf.fill([2], i), op=hvd.Max, name=each) for i, each in enumerate(names)])
    assert [each.numpy().tolist() for each in got] == [[i, i] for i in range(len(names))]
