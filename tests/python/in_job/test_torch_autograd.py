"""Gradients through the collectives."""

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")


def leaf(*shape):
    return torch.ones(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def weight(job):
    """The rank's factor in its loss, which gives the sum and the mean over the ranks."""
    return job.rank + 1.0


def total(job):
    return job.size * (job.size + 1) / 2


def test_the_gradient_of_an_allreduce_is_the_same_allreduce(job, weight):
    for op, want in ((hvd.Average, total(job) / job.size), (hvd.Sum, total(job))):
        x = leaf(3, 2)
        (hvd.allreduce(x, op=op, name="x") * weight).sum().backward()
        assert torch.allclose(x.grad, torch.full_like(x, want))
        x = leaf(2)
        (hvd.allreduce(x, op=op, prescale_factor=2, postscale_factor=3) * weight).sum().backward()
        assert torch.allclose(x.grad, torch.full_like(x, 6 * want))
        x, y = leaf(2), leaf(3)
        a, b = hvd.grouped_allreduce([x, y], op=op)
        ((a.sum() + 2 * b.sum()) * weight).backward()
        assert torch.allclose(x.grad, torch.full_like(x, want)) and torch.allclose(
            y.grad, torch.full_like(y, 2 * want)
        )


def test_an_allgather_gives_each_rank_its_rows_of_the_average(job, weight):
    x = leaf(job.rank + 1, 2)
    gathered = hvd.allgather(x)
    rows = torch.arange(len(gathered), dtype=torch.float64).unsqueeze(1)
    (gathered * rows * weight).sum().backward()
    first = job.rank * (job.rank + 1) // 2
    want = rows[first : first + job.rank + 1] * total(job) / job.size
    assert torch.allclose(x.grad, want.expand(-1, 2))
    x, y = leaf(2), leaf(1, 2)
    a, b = hvd.grouped_allgather([x, y])
    ((a.sum() + 3 * b.sum()) * weight).backward()
    assert torch.allclose(x.grad, torch.full_like(x, total(job) / job.size))
    assert torch.allclose(y.grad, torch.full_like(y, 3 * total(job) / job.size))


def test_a_broadcast_gives_its_root_the_average_and_others_zeros(job, weight):
    root = job.size - 1
    x = leaf(3)
    (hvd.broadcast(x, root) * weight).sum().backward()
    assert torch.allclose(x.grad, torch.full_like(x, total(job) / job.size if job.rank == root else 0))


def test_an_alltoall_sends_gradients_back(job, weight):
    x = leaf(job.size * 2)
    (hvd.alltoall(x) * weight).sum().backward()
    assert x.grad.tolist() == [rank + 1.0 for rank in range(job.size) for _ in range(2)]
    splits = [rank + 1 for rank in range(job.size)]
    x = leaf(sum(splits), 2)
    got, received = hvd.alltoall(x, splits=splits, name="split")
    (got * weight).sum().backward()
    assert x.grad[:, 0].tolist() == [rank + 1.0 for rank in range(job.size) for _ in range(rank + 1)]


def test_a_reducescatter_gathers_gradients(job, weight):
    for op, factor in ((hvd.Average, 1), (hvd.Sum, job.size)):
        x = leaf(job.size, 2)
        (hvd.reducescatter(x, op=op) * weight).sum().backward()
        assert x.grad[:, 0].tolist() == [factor * (rank + 1.0) for rank in range(job.size)]
        x, y = leaf(job.size), leaf(job.size)
        a, b = hvd.grouped_reducescatter([x, y], op=op)
        ((a.sum() + 2 * b.sum()) * weight).backward()
        assert y.grad.tolist() == [2 * factor * (rank + 1.0) for rank in range(job.size)]


def test_only_linear_reductions_have_gradients(job):
    for op in (hvd.Min, hvd.Max, hvd.Product):
        with pytest.raises(ValueError, match="only Average and Sum have a gradient"):
            hvd.allreduce(leaf(2), op=op).sum().backward()


def test_gradients_flow_through_compression_and_in_process_sets(job):
    x = leaf(2)
    hvd.allreduce(x, compression=hvd.Compression.fp16, op=hvd.Sum).sum().backward()
    assert x.grad.tolist() == [job.size] * 2
    alone = hvd.add_process_set([job.size - 1])
    if alone.included():
        x = leaf(2)
        hvd.allgather(x, process_set=alone).sum().backward()
        assert x.grad.tolist() == [1, 1]
    hvd.remove_process_set(alone)


def test_without_gradients_nothing_is_recorded(job):
    assert not hvd.allreduce(torch.ones(2)).requires_grad
    with torch.no_grad():
        assert not hvd.allreduce(leaf(2)).requires_grad
    assert hvd.allreduce(leaf(2)).requires_grad
