"""The collectives on PyTorch's tensors, compared with one process's result from all ranks' inputs."""

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCED = INTEGERS + FLOATS
MOVED = REDUCED + [torch.bool]
SHAPES = [(), (5,), (4, 3), (2, 3, 4), (0, 3)]
ROW_SHAPES = [shape for shape in SHAPES if shape]


def inputs(job, shape, dtype):
    """A list of one tensor per rank, with small whole numbers."""
    return [torch.from_numpy(each).to(dtype) for each in job.inputs(shape, "uint8")]


@pytest.fixture
def evens(job):
    """The process set of the ranks with even numbers."""
    added = hvd.add_process_set(range(0, job.size, 2))
    yield added
    assert hvd.remove_process_set(added)


def reduced(op, tensors):
    all_of_them = torch.stack([each.to(torch.float64) for each in tensors])
    total = all_of_them.sum(0)
    # Integer sums are divided; other sums are multiplied once.
    mean = total * (1 / len(tensors)) if tensors[0].is_floating_point() else total / len(tensors)
    return {
        hvd.Average: lambda: mean,
        hvd.Sum: lambda: total,
        hvd.Min: lambda: all_of_them.min(0).values,
        hvd.Max: lambda: all_of_them.max(0).values,
        hvd.Product: lambda: all_of_them.prod(0),
    }[op]()


def assert_equal(got, want, dtype):
    want = want.trunc().to(dtype) if not dtype.is_floating_point else want.to(dtype)
    assert got.dtype == dtype and got.shape == want.shape
    assert torch.equal(got, want), (got, want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_allreduce_gives_the_reduction_of_all_ranks(job, dtype, shape):
    every = inputs(job, shape, dtype)
    for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
        mine = every[job.rank].clone()
        assert_equal(hvd.allreduce(mine, op=op), reduced(op, every), dtype)
        assert torch.equal(mine, every[job.rank])
        assert_equal(hvd.synchronize(hvd.allreduce_async(mine, op=op)), reduced(op, every), dtype)
        assert hvd.allreduce_(mine, op=op) is mine
        assert_equal(mine, reduced(op, every), dtype)
        again = every[job.rank].clone()
        assert hvd.synchronize(hvd.allreduce_async_(again, op=op)) is again
        assert_equal(again, reduced(op, every), dtype)


def test_an_allreduce_averages_unless_told_otherwise(job):
    mine = torch.tensor([float(job.rank)])
    mean, total = (job.size - 1) / 2, job.size * (job.size - 1) / 2
    assert hvd.allreduce(mine).item() == mean
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(mine, average=False).item() == total
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(mine, True).item() == mean
    with pytest.raises(ValueError, match="pass only op"):
        hvd.allreduce(mine, average=True, op=hvd.Sum)


def test_factors_multiply_before_and_after(job):
    total = job.size * (job.size - 1) / 2
    mine = torch.full((3,), float(job.rank), dtype=torch.float64)
    assert (
        hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3).tolist() == [1.5 * total] * 3
    )
    scattered = hvd.reducescatter(mine.repeat(job.size), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3)
    assert scattered.tolist() == [1.5 * total] * 3


def test_bits_of_booleans_and_integers_are_combined(job):
    mine = torch.tensor([job.rank == 0, True, False])
    assert hvd.allreduce(mine, op=hvd.BitwiseOr).tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.BitwiseAnd).tolist() == [job.size == 1, True, False]
    assert hvd.allreduce(torch.tensor([1 << job.rank]), op=hvd.BitwiseXor).item() == (1 << job.size) - 1


def test_groups_travel_together_whatever_their_dtypes(job):
    every = [
        [
            torch.full((2,), float(rank)),
            torch.full((3, 1), rank),
            torch.full((1,), float(rank), dtype=torch.float64),
        ]
        for rank in range(job.size)
    ]
    total = job.size * (job.size - 1) // 2
    for reduce in (
        hvd.grouped_allreduce,
        hvd.grouped_allreduce_,
        lambda *a, **k: hvd.synchronize(hvd.grouped_allreduce_async(*a, **k)),
        lambda *a, **k: hvd.synchronize(hvd.grouped_allreduce_async_(*a, **k)),
    ):
        mine = [each.clone() for each in every[job.rank]]
        got = reduce(mine, name="a group", op=hvd.Sum)
        assert [each.flatten().tolist() for each in got] == [[total] * 2, [total] * 3, [total]]
        assert [each.dtype for each in got] == [torch.float32, torch.int64, torch.float64]
    gathered = hvd.grouped_allgather(every[job.rank], name="a group")
    assert [len(each) for each in gathered] == [2 * job.size, 3 * job.size, job.size]
    assert gathered[1].flatten().tolist() == [rank for rank in range(job.size) for _ in range(3)]
    rows = [torch.arange(job.size * 2.0), torch.ones(job.size, 2)]
    first, second = hvd.grouped_reducescatter(rows, op=hvd.Sum)
    assert first.tolist() == [job.size * 2.0 * job.rank, job.size * (2.0 * job.rank + 1)]
    assert second.tolist() == [[job.size, job.size]]


@pytest.mark.parametrize("shape", ROW_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_tensors_are_moved_as_they_are(job, dtype, shape):
    every = [tensor[: max(0, len(tensor) - rank)] for rank, tensor in enumerate(inputs(job, shape, dtype))]
    assert torch.equal(hvd.allgather(every[job.rank]), torch.cat(every))
    assert hvd.allgather(every[job.rank]).dtype == dtype

    whole = inputs(job, shape, dtype)
    root = job.size - 1
    assert torch.equal(hvd.broadcast(whole[job.rank], root), whole[root])
    mine = whole[job.rank].clone()
    assert hvd.broadcast_(mine, root_rank=root) is mine
    assert torch.equal(mine, whole[root])
    assert torch.equal(hvd.synchronize(hvd.broadcast_async(whole[job.rank], root)), whole[root])

    blocks = inputs(job, (job.size * 2, *shape), dtype)
    want = torch.cat([block[2 * job.rank : 2 * job.rank + 2] for block in blocks])
    assert torch.equal(hvd.alltoall(blocks[job.rank]), want)


def test_a_scalar_is_broadcast(job):
    assert hvd.broadcast(torch.tensor(job.rank), 0).item() == 0


@pytest.mark.parametrize("as_tensor", [False, True])
def test_an_alltoall_with_splits_tells_what_came(job, as_tensor):
    splits = list(range(1, job.size + 1))  # i + 1 rows for rank i
    mine = torch.full((sum(splits), 2), job.rank)
    got, received = hvd.alltoall(mine, splits=torch.tensor(splits) if as_tensor else splits)
    assert received.tolist() == [job.rank + 1] * job.size and received.dtype == torch.int32
    assert got[:, 0].tolist() == [rank for rank in range(job.size) for _ in range(job.rank + 1)]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_a_reducescatter_leaves_each_rank_its_rows(job, dtype):
    rows = job.size + 1  # the first rank has one row more
    every = inputs(job, (rows, 3), dtype)
    first = job.rank + min(job.rank, 1)
    last = first + (2 if job.rank == 0 else 1)
    for op in (hvd.Average, hvd.Sum):
        assert_equal(hvd.reducescatter(every[job.rank], op=op), reduced(op, every)[first:last], dtype)
        got = hvd.synchronize(hvd.reducescatter_async(every[job.rank], op=op))
        assert_equal(got, reduced(op, every)[first:last], dtype)


def test_sparse_tensors_are_added(job):
    dense = torch.zeros(4, 2)
    dense[job.rank % 4] = job.rank + 1.0
    want = torch.zeros(4, 2)
    for rank in range(job.size):
        want[rank % 4] += rank + 1.0
    assert torch.equal(hvd.sparse_allreduce_async(dense.to_sparse(1), "sparse", hvd.Sum)().to_dense(), want)
    mean = hvd.sparse_allreduce_async(dense.to_sparse(2), "sparse", hvd.Average)()
    assert torch.allclose(mean.to_dense(), want / job.size)
    with pytest.raises(ValueError, match="Average or Sum"):
        hvd.sparse_allreduce_async(dense.to_sparse(), "sparse", hvd.Max)
    with pytest.raises(ValueError, match="bool has no average"):
        hvd.sparse_allreduce_async(dense.to_sparse().bool(), "sparse", hvd.Average)
    any_rank = hvd.sparse_allreduce_async(dense.to_sparse().bool(), "sparse", hvd.Sum)()
    assert torch.equal(any_rank.to_dense(), want.bool())


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_an_average_of_sparse_integers_is_that_of_dense_ones(job, dtype):
    large = torch.iinfo(dtype).max - job.rank
    below_zero = -1 - job.rank if dtype.is_signed else 0  # its mean is truncated, not rounded down
    dense = torch.tensor([[large, 0, job.rank], [0, below_zero, 1]], dtype=dtype)
    got = hvd.sparse_allreduce_async(dense.to_sparse(1), "sparse", hvd.Average)()
    assert got.dtype == dtype
    assert torch.equal(got.to_dense(), hvd.allreduce(dense, op=hvd.Average))


def test_only_members_of_a_process_set_take_part(job, evens):
    if job.rank % 2 == 1:
        with pytest.raises(ValueError):
            hvd.allreduce(torch.ones(2), process_set=evens)
        return
    members = list(range(0, job.size, 2))
    mine = torch.tensor([float(job.rank)])
    assert hvd.allreduce(mine, op=hvd.Sum, process_set=evens).item() == sum(members)
    assert hvd.allgather(mine, process_set=evens).tolist() == members
    assert hvd.broadcast(mine, members[-1], process_set=evens).item() == members[-1]
    assert hvd.alltoall(mine.repeat(len(members)), process_set=evens).tolist() == members
    assert hvd.reducescatter(mine.repeat(len(members)), op=hvd.Sum, process_set=evens).tolist() == [
        sum(members)
    ]
    assert hvd.allreduce(mine, process_set=evens.process_set_id).item() == sum(members) / len(members)
    assert hvd.broadcast_object(job.rank, members[-1], process_set=evens) == members[-1]
    hvd.barrier(process_set=evens)


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_allreduces_keep_dtype_and_value(job, compression):
    compressor = getattr(hvd.Compression, compression)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32):
        got = hvd.allreduce(torch.full((3,), job.rank, dtype=dtype), compression=compressor, op=hvd.Sum)
        assert got.dtype == dtype and got.tolist() == [job.size * (job.size - 1) / 2] * 3
    got = hvd.grouped_allreduce(
        [torch.ones(2), torch.ones(2, dtype=torch.float64)], compression=compressor, op=hvd.Sum
    )
    assert [each.tolist() for each in got] == [[job.size] * 2] * 2
    got = hvd.reducescatter(torch.ones(job.size), compression=compressor, op=hvd.Sum)
    assert got.tolist() == [job.size] and got.dtype == torch.float32


def test_a_compressor_of_ones_own_is_called(job):
    class Halves(hvd.Compressor):
        @staticmethod
        def compress(tensor):
            return tensor / 2, "context"

        @staticmethod
        def decompress(tensor, ctx):
            assert ctx == "context"
            return tensor * 2

    assert hvd.allreduce(torch.ones(2), compression=Halves, op=hvd.Sum).tolist() == [job.size] * 2


def test_handles_can_be_asked_and_synchronized_again(job):
    handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
    assert hvd.synchronize(handle).tolist() == [job.size] * 2
    assert hvd.poll(handle) is True
    assert hvd.synchronize(handle).tolist() == [job.size] * 2
    assert hvd.synchronize(None) is None


def test_outputs_outlive_their_handles(job):
    gathered = hvd.allgather(torch.arange(1000.0))
    for _ in range(20):
        hvd.allgather(torch.zeros(1000))
    assert torch.equal(gathered, torch.arange(1000.0).repeat(job.size))


COLLECTIVES = [
    hvd.allreduce,
    hvd.allreduce_,
    hvd.allreduce_async,
    hvd.allreduce_async_,
    hvd.allgather,
    hvd.allgather_async,
    lambda t: hvd.broadcast(t, 0),
    lambda t: hvd.broadcast_(t, 0),
    hvd.alltoall,
    hvd.reducescatter,
    lambda t: hvd.grouped_allreduce([t]),
    lambda t: hvd.grouped_allgather([t]),
    lambda t: hvd.grouped_reducescatter([t]),
]


@pytest.mark.parametrize("call", COLLECTIVES)
def test_what_cannot_travel_is_refused_by_the_call(call):
    with pytest.raises(ValueError, match="not contiguous.*pass tensor.contiguous"):
        call(torch.ones(4, 4).t())
    with pytest.raises(ValueError, match="complex64|ComplexFloat"):
        call(torch.ones(4, dtype=torch.complex64))
    with pytest.raises(ValueError, match="resolve_neg"):
        call(torch.tensor([1 + 2j]).conj().imag)
    with pytest.raises(ValueError, match="layout"):
        call(torch.ones(4, 4).to_sparse())
    with pytest.raises(ValueError, match="meta.*host_staging=True"):
        call(torch.ones(4, device="meta"))


def test_what_is_no_tensor_is_refused():
    for thing in (None, 3.0, [1.0, 2.0]):
        with pytest.raises(ValueError, match="expected a torch.Tensor"):
            hvd.allreduce_async(thing)


def test_ranks_that_disagree_are_told_what_each_has(job):
    if job.size == 1:
        return
    with pytest.raises(hvd.DabkeError, match="Mismatched.*shape"):
        hvd.allreduce(torch.ones(job.rank + 1), name="uneven")
    with pytest.raises(hvd.DabkeError, match="(?i)mismatched.*(type|dtype)"):
        hvd.allreduce(torch.ones(2, dtype=torch.float32 if job.rank else torch.float64), name="mixed")
    with pytest.raises(hvd.DabkeError, match="Mismatched.*root"):
        hvd.broadcast(torch.ones(2), job.rank, name="roots")


def test_a_scalar_has_no_rows_to_gather():
    with pytest.raises(ValueError):
        hvd.allgather(torch.tensor(1.0))
    with pytest.raises(ValueError):
        hvd.allgather(torch.tensor(1.0, requires_grad=True))


def test_a_tensor_on_a_gpu_goes_directly_behind_the_stream_on_which_the_caller_works(monkeypatch):
    from types import SimpleNamespace

    from dabke.torch import device_streams

    there = SimpleNamespace(is_cpu=False, is_cuda=True, device="cuda:1")
    current = {}
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=current[device])
    )
    # PyTorch's default stream, 0, is the legacy stream, 1. Here, 0 would mean that the data is ready now.
    for handle, meant in ((0, 1), (4096, 4096)):
        current["cuda:1"] = handle
        assert device_streams.stream_of(there) == meant
    assert device_streams.stream_of(torch.ones(1)) == 0
    for has_nccl in (False, True):
        monkeypatch.setattr(
            device_streams._core,
            "backend_enabled",
            lambda name, is_there=has_nccl: name == "nccl" and is_there,
        )
        assert device_streams.is_supported(there) == has_nccl
    monkeypatch.setattr(device_streams, "_IS_ROCM", True)
    assert not device_streams.is_supported(there)


def test_tensors_of_other_devices_are_staged_on_the_host(job, monkeypatch):
    """Treats the host's tensors as those of a device without a backend."""
    from dabke.torch import tensors

    monkeypatch.setattr(tensors, "is_plain", lambda tensor: False)
    monkeypatch.setattr(tensors, "is_supported", lambda tensor: getattr(tensor, "is_copy", False))
    with pytest.raises(ValueError, match="host_staging"):
        hvd.allreduce(torch.ones(2))
    tensors.set_host_staging(True)
    try:
        mine = torch.full((2,), float(job.rank))
        total = job.size * (job.size - 1) / 2
        assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [total] * 2
        assert hvd.allreduce_(mine.clone(), op=hvd.Sum).tolist() == [total] * 2
        pair = [mine.clone(), mine.clone()]
        hvd.grouped_allreduce_(pair, op=hvd.Sum)
        assert [each.tolist() for each in pair] == [[total] * 2] * 2
        assert hvd.broadcast_(mine.clone(), 0).tolist() == [0, 0]
        assert len(hvd.allgather(mine)) == 2 * job.size
    finally:
        tensors.set_host_staging(False)
