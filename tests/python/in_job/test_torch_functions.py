"""The common start of all ranks, objects, averages of metrics, and the warm-up of the learning rate."""

import functools

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")
import dabke  # noqa: E402

nn = torch.nn


def model_of(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4, bias=False))


def everyone_has(job, tensor):
    gathered = hvd.allgather(tensor.detach().reshape(1, -1))
    return all(torch.equal(each, gathered[0]) for each in gathered)


@pytest.mark.parametrize("named", [False, True])
def test_parameters_become_those_of_the_root(job, named):
    root = job.size - 1
    model = model_of(job.rank)
    hvd.broadcast_parameters(model.named_parameters() if named else model.state_dict(), root_rank=root)
    want = model_of(root).state_dict()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, want[name])


def test_parameters_may_be_of_any_dtype_and_memory_format(job):
    mixed = {
        "half": torch.full((2,), job.rank, dtype=torch.float16),
        "flag": torch.tensor([job.rank == 0]),
        "count": torch.tensor(job.rank),
        "nothing": None,
        "complex": torch.full((2,), complex(job.rank, 1), dtype=torch.complex64),
    }
    image = torch.arange(24.0).view(1, 2, 3, 4) + job.rank
    mixed["image"] = image.to(memory_format=torch.channels_last) if job.rank else image
    hvd.broadcast_parameters(mixed, root_rank=0)
    assert mixed["half"].tolist() == [0, 0] and mixed["flag"].item() and mixed["count"].item() == 0
    assert torch.equal(mixed["image"], torch.arange(24.0).view(1, 2, 3, 4))
    assert mixed["complex"].tolist() == [1j, 1j]


def test_what_is_no_parameter_is_refused(job):
    with pytest.raises(ValueError, match="state_dict or named"):
        hvd.broadcast_parameters([torch.ones(2)], 0)
    with pytest.raises(ValueError, match="'broadcast.text': expected a torch.Tensor, got str"):
        hvd.broadcast_parameters({"text": "x"}, 0)


OPTIMIZERS = sorted(
    name
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and name not in ("Optimizer", "LBFGS")
)


def stepped(kind, seed, steps):
    """A layer and its optimizer after some steps. SparseAdam needs sparse gradients; Muon takes only
    matrices."""
    torch.manual_seed(seed)
    layer = (
        nn.Embedding(4, 4, sparse=kind.__name__ == "SparseAdam")
        if kind.__name__ == "SparseAdam"
        else nn.Linear(4, 4, bias=kind.__name__ != "Muon")
    )
    optimizer = kind(layer.parameters(), lr=0.01 * (seed + 1))
    step(layer, optimizer, steps)
    return layer, optimizer


def step(layer, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        data = (
            torch.tensor([[0, 1, 3]])
            if isinstance(layer, nn.Embedding)
            else torch.linspace(-1, 1, 12).view(3, 4)
        )
        layer(data).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_of_every_optimizer_becomes_that_of_the_root(job, name, steps, distributed):
    """Ranks other than the root have made no step and have no state. With 0 steps, neither has the root."""
    root = job.size - 1
    kind = getattr(torch.optim, name)
    layer, optimizer = stepped(kind, job.rank, steps if job.rank == root else 0)
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, layer.named_parameters())
    hvd.broadcast_parameters(layer.state_dict(), root)
    hvd.broadcast_optimizer_state(optimizer, root)
    same, reference = stepped(kind, root, steps)
    got, want = optimizer.state_dict(), reference.state_dict()
    assert got["param_groups"] == want["param_groups"]
    assert_same(got["state"], want["state"])
    step(layer, optimizer, 2)
    step(same, reference, 2)
    assert torch.allclose(layer.weight, same.weight)


def assert_same(got, want):
    if isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and torch.equal(got, want)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            assert_same(got[key], want[key])
    else:
        assert got == want


def test_the_state_of_lbfgs_is_refused():
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model_of(0).parameters()), 0)


@pytest.mark.parametrize("name", [None, "settings"])
def test_objects_are_broadcast_and_gathered(job, name):
    mine = {"rank": job.rank, "list": list(range(job.rank)), "tensor": torch.tensor([job.rank])}
    got = hvd.broadcast_object(mine, root_rank=job.size - 1, name=name)
    assert got["rank"] == job.size - 1 and got["list"] == list(range(job.size - 1))
    everyones = hvd.allgather_object(mine, name=name)
    assert [each["rank"] for each in everyones] == list(range(job.size))
    assert [each["tensor"].item() for each in everyones] == list(range(job.size))
    assert hvd.broadcast_object(None) is None and hvd.allgather_object(None) == [None] * job.size


class Spoilt:
    """An object that cannot be pickled, or cannot be unpickled, on the given rank."""

    unpickled_on = pickled_on = None

    def __init__(self, error, pickled_on=None, unpickled_on=None):
        self.error, self.pickled_on, self.unpickled_on = error, pickled_on, unpickled_on

    def __getstate__(self):
        if hvd.rank() == self.pickled_on:
            raise self.error
        return vars(self)

    def __setstate__(self, state):
        if hvd.rank() == state["unpickled_on"]:
            raise state["error"]
        vars(self).update(state)


OBJECTS = {
    "broadcast_object": lambda obj, name=None: hvd.broadcast_object(obj, 1, name),
    "allgather_object": hvd.allgather_object,
}


@pytest.mark.parametrize(
    "error",
    [TypeError("no way"), ValueError("half \udc80"), AttributeError(), MemoryError("much"), KeyError(1)],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("call", OBJECTS)
def test_what_one_rank_cannot_pickle_is_the_error_of_all(job, call, error):
    for name in (None, "state", "state"):
        with pytest.raises(
            ValueError, match=f"{call}.*: rank 1 cannot pickle its object: {type(error).__name__}"
        ) as raised:
            OBJECTS[call](Spoilt(error, pickled_on=1), name)
        assert (raised.value.__cause__ is error) == (job.rank == 1)
        assert str(raised.value).isprintable() and ("udc80" in str(raised.value)) == ("udc80" in repr(error))
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == job.size  # the job goes on
        everyones = OBJECTS[call](["right", job.rank], name)
        assert everyones == (
            ["right", 1] if call == "broadcast_object" else [["right", rank] for rank in range(job.size)]
        )


@pytest.mark.parametrize("call", OBJECTS)
def test_what_one_rank_cannot_unpickle_is_the_error_of_all(job, call):
    sender = 1 if call == "broadcast_object" else 0
    text = (
        f"{call} '{call}.state': rank 0 cannot unpickle the object of rank {sender}: ImportError: no module"
    )
    with pytest.raises(ValueError) as raised:
        OBJECTS[call](Spoilt(ImportError("no module"), unpickled_on=0), "state")
    assert str(raised.value) == text
    assert OBJECTS[call](5) == (5 if call == "broadcast_object" else [5] * job.size)


def test_the_first_of_the_ranks_that_fail_is_told_of_and_nothing_half_done_is_left(job):
    with pytest.raises(ValueError, match="rank 0 cannot pickle its object"):
        hvd.allgather_object(Spoilt(TypeError(f"no {job.rank}"), pickled_on=job.rank))
    with pytest.raises(ValueError, match="rank 0 cannot unpickle the object of rank 1"):
        # An object that cannot be unpickled on rank 0, or cannot be pickled on a rank that need not send it.
        hvd.broadcast_object(
            Spoilt(OSError(), unpickled_on=0) if job.rank == 1 else object.__new__(Spoilt), 1
        )
    assert hvd.broadcast_object(5 if job.rank == 1 else (lambda: 0), 1) == 5


def test_an_objects_process_set_is_asked_and_nobody_else(job):
    if job.size == 2:
        pytest.skip("a set of two is the world")
    pair = dabke.add_process_set([0, 1])
    for call in (
        (functools.partial(hvd.broadcast_object, root_rank=1), hvd.allgather_object)
        if pair.included()
        else ()
    ):
        with pytest.raises(ValueError, match="rank 1 cannot pickle"):
            call(Spoilt(TypeError(), pickled_on=1), process_set=pair)
    dabke.remove_process_set(pair)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit()], ids=lambda stop: type(stop).__name__)
def test_what_stops_a_program_stops_it_while_an_object_is_pickled_too(job, stop):
    own = dabke.add_process_set([job.rank], among_members=True)
    for call in (functools.partial(hvd.broadcast_object, root_rank=job.rank), hvd.allgather_object):
        with pytest.raises(type(stop)) as raised:
            call(Spoilt(stop, pickled_on=job.rank), process_set=own)
        assert raised.value is stop
        with pytest.raises(type(stop)):
            hvd.allgather_object(Spoilt(stop, unpickled_on=job.rank), process_set=own)
    dabke.remove_process_set(own, among_members=True)


def test_the_state_of_an_optimizer_that_cannot_be_pickled_is_the_error_of_all(job):
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.param_groups[0]["note"] = Spoilt(TypeError("no way"), pickled_on=1)
    with pytest.raises(ValueError, match="rank 1 cannot pickle its object: TypeError: no way"):
        hvd.broadcast_optimizer_state(optimizer, 1)


def test_metrics_are_averaged_with_their_weights(job):
    assert hvd.metric_average(float(job.rank)) == (job.size - 1) / 2
    assert hvd.metric_average(torch.tensor(2.5), "loss") == 2.5
    nan_without_weight = float("nan") if job.rank == 0 else 3.0
    if job.size > 1:
        assert hvd.metric_average(nan_without_weight, weight=float(job.rank)) == 3.0


def test_the_rate_warms_up_from_that_of_one_rank(job):
    optimizer = torch.optim.SGD(model_of(0).parameters(), lr=0.1 * job.size)
    schedule = hvd.WarmupLR(optimizer, warmup_steps=4, after=lambda step: 0.5**step)
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    full = 0.1 * job.size
    want = [0.1 + (full - 0.1) * i / 4 for i in range(4)] + [full, full / 2, full / 4]
    assert rates == pytest.approx(want)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.tensor([float(index)]), torch.tensor([float(index) ** 2])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_data_loaders_may_have_worker_processes(job, start):
    if start == "spawn" and job.size > 2:
        pytest.skip("each worker imports PyTorch anew; two ranks are enough")
    sampler = torch.utils.data.DistributedSampler(Squares(), num_replicas=job.size, rank=job.rank)
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=4, sampler=sampler, num_workers=1, multiprocessing_context=start
    )
    seen = torch.zeros(1)
    for inputs, _ in loader:
        total = hvd.allreduce(inputs.sum(0), op=hvd.Sum, name="during the loading")
        seen += total
    assert seen.item() == sum(range(24))
