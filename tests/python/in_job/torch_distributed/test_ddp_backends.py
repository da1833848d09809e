"""Groups such as "cpu:dabke,cuda:nccl", whose tensors of other devices go to other backends.

The other device here is "meta", whose tensors have no data. Its backend notes its calls.
"""

import inspect
from datetime import timedelta

import pytest
from ddp import dist, torch, world  # noqa: F401

pytestmark = [
    pytest.mark.usefixtures("world"),
    pytest.mark.skipif(
        not hasattr(dist.distributed_c10d, "BackendConfig"),
        reason="this version of torch has one backend for all devices",
    ),
]


class Done(dist.Work):
    def wait(self, timeout=None):
        return True


class Noting(dist.ProcessGroup):
    """A backend that notes its calls."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.calls = []

    def _note(self, call):
        self.calls.append(call)
        return Done()

    def allreduce(self, *_):
        return self._note("allreduce")

    def broadcast(self, *_):
        return self._note("broadcast")

    def gather(self, *_):
        return self._note("gather")

    def send(self, *_):
        return self._note("send")

    def getBackendName(self):
        return "noting"

    # Torch reads the name of a group of Python from itself.
    def _set_group_name(self, name):
        self.name_of_group = name

    group_name = property(lambda self: self.name_of_group)

    def shutdown(self):
        self.calls.append("shutdown")

    def abort(self):
        self.calls.append("abort")


if hasattr(dist.distributed_c10d, "BackendConfig") and not hasattr(dist.Backend, "NOTING"):
    dist.Backend.register_backend("noting", Noting, devices=["meta"])


@pytest.mark.parametrize("string", ["cpu:dabke,meta:noting", "meta:noting,cpu:dabke"])
def test_tensors_go_to_the_backend_of_their_device(string, job):
    group = dist.new_group(backend=string)
    here, there = torch.ones(2), torch.ones(2, device="meta")
    dist.all_reduce(here, group=group)
    assert here.tolist() == [job.size] * 2
    assert not group._groups  # the other backend has not been needed yet
    dist.all_reduce(there, group=group)
    dist.broadcast(there, 0, group=group)
    parts = [torch.empty(2, device="meta") for _ in range(job.size)] if job.rank == 0 else None
    dist.gather(there, parts, 0, group=group)
    dist.isend(there, (job.rank + 1) % job.size, group=group)
    dist.all_reduce(here, group=group)
    assert here.tolist() == [job.size**2] * 2
    noting = group._groups["meta"]
    assert noting.calls == ["allreduce", "broadcast", "gather", "send"]
    objects = [None] * job.size
    dist.all_gather_object(objects, job.rank, group=group)
    assert objects == list(range(job.size))
    assert group._get_backend(torch.device("cpu")) is group
    dist.destroy_process_group(group)
    assert noting.calls[-1] == "shutdown"


def test_a_backend_that_is_not_here_is_not_needed_before_its_device(job):
    group = dist.new_group(backend="cuda:nccl,cpu:dabke")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1), process_group=group)
    model(torch.full((1, 2), float(job.rank))).sum().backward()
    assert model.module.weight.grad.tolist() == [[(job.size - 1) / 2] * 2]


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no Gloo")
def test_a_backend_of_torch_is_made_for_its_device(job):
    group = dist.new_group([0, job.size - 1], backend="cuda:gloo,cpu:dabke")
    if job.rank in (0, job.size - 1):
        other = group._get_backend(torch.device("cuda"))
        assert type(other).__name__.endswith(("Gloo", "Wrapper")) and other.size() == 2
        dist.destroy_process_group(group)


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no Gloo")
def test_a_member_of_more_groups_meets_the_others_in_the_other_backend(job):
    dist.new_group([0])  # torch names a group by the number of groups that the rank is in
    string, limit = "cuda:gloo,cpu:dabke", timedelta(seconds=20)
    groups = [dist.new_group(backend=string, timeout=limit) for _ in range(2)]
    for group in groups:
        assert group._get_backend(torch.device("cuda")).size() == job.size
    names = {group._groups["cuda"].group_name for group in groups}
    assert len(names) == 2
    for group in groups:
        dist.destroy_process_group(group)


@pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters,
    reason="this version of torch sorts the ranks of a group",
)
def test_the_other_backend_has_the_members_in_the_same_order(job):
    group = dist.new_group(list(range(job.size))[::-1], backend="cpu:dabke,meta:noting", sort_ranks=False)
    dist.all_reduce(torch.ones(2, device="meta"), group=group)
    other = group._groups["meta"]
    assert other.rank() == group.rank() == job.size - 1 - job.rank
    assert dist.get_process_group_ranks(other) == dist.get_process_group_ranks(group)
    dist.destroy_process_group(group)


def test_a_group_of_one_backend_has_no_others(job):
    for string in ("dabke", "cpu:dabke"):
        assert type(dist.new_group(backend=string)).__name__ == "Group"


def test_abort_of_a_group_aborts_its_other_backends_too(monkeypatch, job):
    group = dist.new_group(backend="cpu:dabke,meta:noting")
    dist.all_reduce(torch.ones(2, device="meta"), group=group)
    reasons = []
    monkeypatch.setattr("dabke._core.abort", reasons.append)  # a real one would end this job
    group.abort()
    assert group._groups["meta"].calls == ["allreduce", "abort"] and len(reasons) == 1
    monkeypatch.undo()
    dist.destroy_process_group(group)
