"""SyncBatchNorm gives the same result as a plain BatchNorm on the ranks' batches as one batch."""

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")
nn = torch.nn

PLAIN = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def parts(job, sizes, shape):
    """Returns the joined batch, and the slice of this rank's part."""
    generator = torch.Generator().manual_seed(2)
    joined = torch.randn(sum(sizes), *shape, generator=generator, dtype=torch.float64) * 3 + 100
    first = sum(sizes[: job.rank])
    return joined, slice(first, first + sizes[job.rank])


@pytest.mark.parametrize("sizes", ["even", "uneven", "one is empty"])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_it_is_a_batch_norm_of_the_joined_batch(job, dims, affine, sizes):
    sizes = {
        "even": [3] * job.size,
        "uneven": list(range(2, job.size + 2)),
        "one is empty": [4] * (job.size - 1) + [0 if job.size > 1 else 4],
    }[sizes]
    joined, mine = parts(job, sizes, (5, *[2] * dims))
    synced = hvd.SyncBatchNorm(5, affine=affine, momentum=0.3).double()
    plain = PLAIN[dims](5, affine=affine, momentum=0.3).double()
    own, whole = joined[mine].clone().requires_grad_(), joined.clone().requires_grad_()
    factors = torch.linspace(-1, 2, joined.numel(), dtype=torch.float64).view_as(joined)
    for _ in range(2):
        own.grad = whole.grad = None
        out, want = synced(own), plain(whole)
        (out * factors[mine]).sum().backward()
        (want * factors).sum().backward()
        assert torch.allclose(out, want[mine], atol=1e-9)
        assert torch.allclose(own.grad, whole.grad[mine], atol=1e-9)
    if affine:
        for parameter, reference in zip(synced.parameters(), plain.parameters()):
            assert torch.allclose(hvd.allreduce(parameter.grad, op=hvd.Sum), reference.grad)
    assert torch.allclose(synced.running_mean, plain.running_mean)
    assert torch.allclose(synced.running_var, plain.running_var)
    assert synced.num_batches_tracked == plain.num_batches_tracked
    synced.eval(), plain.eval()
    assert torch.allclose(synced(own), plain(whole)[mine])


def test_it_averages_over_all_batches_without_momentum_and_can_track_nothing(job):
    joined, mine = parts(job, [3] * job.size, (2,))
    for arguments in ({"momentum": None}, {"track_running_stats": False}):
        synced, plain = hvd.SyncBatchNorm(2, **arguments).double(), nn.BatchNorm1d(2, **arguments).double()
        for factor in (1, 2):
            assert torch.allclose(synced(joined[mine] * factor), plain(joined * factor)[mine])
        if synced.running_mean is not None:
            assert torch.allclose(synced.running_var, plain.running_var)


def test_halves_keep_their_dtype(job):
    out = hvd.SyncBatchNorm(2)(torch.randn(4, 2).to(torch.bfloat16))
    assert out.dtype == torch.bfloat16


def test_a_single_element_and_too_few_dimensions_are_refused(job):
    with pytest.raises(ValueError, match="at least 2"):
        hvd.SyncBatchNorm(2)(torch.ones(2))
    with pytest.raises(ValueError):
        hvd.SyncBatchNorm(2)(torch.ones(1 if job.rank == 0 else 0, 2))
