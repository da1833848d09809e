"""Shared code of the tests of the torch.distributed backend. Its world group joins the running job."""

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
import dabke.distributed  # noqa: E402, F401


@pytest.fixture
def world():
    """The world group. Its counts of names start anew, so that ranks that fail a test meet at the next."""
    if not dist.is_initialized():
        dist.init_process_group("dabke")
    group = dist.distributed_c10d._get_default_group()
    group._names._rings.clear()
    return group


def inputs(shape, dtype, seed=0):
    """A list with a different tensor for each rank, the same list on all ranks. The numbers are small, so
    that sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    low = 0 if dtype in (torch.uint8, torch.bool) else -3
    high = 2 if dtype is torch.bool else 4
    size = dist.get_world_size()
    return [torch.randint(low, high, tuple(shape), generator=generator).to(dtype) for _ in range(size)]


def equal(left, right):
    assert left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right), (
        f"{left} {right}"
    )
