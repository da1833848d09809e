"""Elastic training with PyTorch: the state of models and optimizers, and the samplers."""

import copy

import numpy
import pytest

torch = pytest.importorskip("torch")

import dabke.torch as hvd  # noqa: E402
from dabke.errors import InvalidArgumentError, PeerLostError  # noqa: E402
from elastic_epochs import Epochs, batches_run  # noqa: E402


@pytest.fixture
def epochs(monkeypatch):
    return Epochs(monkeypatch)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.out = torch.nn.Linear(8, 2)
        self.tied = self.out.weight

    def forward(self, x):
        return self.out(torch.tanh(self.norm(self.hidden(x))))


KINDS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
}


def made(kind="sgd", seed=0, distributed=True):
    torch.manual_seed(seed)
    model = Net()
    optimizer = KINDS[kind](model.parameters())
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return model, optimizer


def step(model, optimizer, number, rank=0):
    torch.manual_seed(100 * number + rank)
    optimizer.zero_grad()
    model(torch.randn(6, 4)).pow(2).mean().backward()
    optimizer.step()


def all_values(model, optimizer):
    """The values of a model and an optimizer, as NumPy arrays by their names."""
    values = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    for key, state in optimizer.state_dict()["state"].items():
        values.update({f"{key}.{name}": each.numpy().copy() for name, each in state.items()})
    values["rate"] = numpy.array(optimizer.param_groups[0]["lr"])
    return values


def check_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        numpy.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_training_goes_on_as_from_the_commit(job, epochs, kind):
    model, optimizer = made(kind)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
    state.sync()
    for number in range(3):
        step(model, optimizer, number, job.rank)
    state.commit()
    step(model, optimizer, 3, job.rank)
    wanted = all_values(model, optimizer)
    step(model, optimizer, 4, job.rank)
    optimizer.param_groups[0]["lr"] = 5.0
    for _ in range(2):  # the first training after it must not change the commit
        state.restore()
        step(model, optimizer, 3, job.rank)
        check_equal(all_values(model, optimizer), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holders", ["first", "last", "but the first"])
def test_a_new_rank_gets_the_model_and_the_optimizer_by_sync(job, epochs, kind, holders):
    chosen = {"first": (0,), "last": (job.size - 1,), "but the first": tuple(range(1, job.size))}[holders]
    is_new = job.rank not in chosen
    model, optimizer = made(kind, distributed=False)
    for number in range(3):
        step(model, optimizer, number)
    wanted = all_values(model, optimizer)
    if is_new:  # without any state of the optimizer
        model, optimizer = made(kind, seed=1 + job.rank, distributed=False)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, extra=torch.full((3,), float(is_new)))
    if not is_new:
        state._number = 6
        state.commit()
    epochs.begin(
        newest=7, holders=chosen, former_ranks=tuple(-1 if r not in chosen else r for r in range(job.size))
    )
    state.sync()
    check_equal(all_values(model, optimizer), wanted)
    assert state.extra.tolist() == [0.0] * 3 and state._number == 7


def test_gradients_of_an_unfinished_step_are_dropped(job, epochs):
    """A failed reduction of the broken epoch does not come back in the next one."""
    model, optimizer = made()
    reference, plain = made(distributed=False)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer)
    epochs.then(newest=0, holders=range(job.size))

    @hvd.elastic.run
    def train(state):
        if not epochs.left:
            optimizer.zero_grad()
            model(torch.ones(6, 4)).sum().backward()  # the reductions have started
            for reduction in optimizer._reducer._tracker._started.values():
                reduction.handle.wait()  # as next_epoch does: nothing of the old epoch runs in the new one
            raise PeerLostError("lost")
        step(model, optimizer, 1)

    train(state)
    step(reference, plain, 1)
    for mine, theirs in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("is_in_the_state", [True, False])
def test_passes_that_did_not_complete_a_step_are_counted_anew(job, epochs, is_in_the_state):
    model, _ = made(distributed=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), backward_passes_per_step=2
    )
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer if is_in_the_state else None)
    epochs.then(newest=1, holders=range(job.size))

    @hvd.elastic.run
    def train(state):
        if not epochs.left:
            model(torch.ones(6, 4)).sum().backward()
            epochs.changes = 1
            state.commit()
        for _ in range(2):
            model(torch.ones(6, 4)).sum().backward()
        optimizer.step()
        return model.out.bias.grad.clone()

    assert train(state).tolist() == [12.0, 12.0]  # of two passes


def test_schedulers_scalers_and_samplers_are_parts_of_the_state(job, epochs):
    model, optimizer = made(distributed=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    sampler = hvd.elastic.ElasticSampler(range(40))
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler, sampler=sampler)
    state.sync()
    if job.rank == 0:
        for number in range(3):
            step(model, optimizer, number)
            scheduler.step()
        sampler.set_epoch(4)
        sampler.record_batch(0, 3)
        state.commit()
    epochs.begin(newest=1, holders=(0,))
    state.sync()
    assert scheduler.last_epoch == 3 and optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
    assert sampler.epoch == 4 and sampler.state_dict()["processed"] == [[0, 3 * job.size]]


def test_an_object_that_a_new_rank_lacks_is_named(job, epochs):
    state = hvd.elastic.TorchState(best=torch.nn.Linear(1, 1) if job.rank == 0 else None)
    if job.rank == 0:
        state.sync()
    else:
        with pytest.raises(InvalidArgumentError, match="TorchState.best: .* 'state_dict', .* NoneType"):
            state.sync()


def test_tensors_of_every_form_arrive(job, epochs):
    values = {
        "half": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3),
        "bool": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]).conj(),
        "strided": torch.arange(12.0).reshape(3, 4).t(),
        "sparse": torch.tensor([1.0, 0.0, 2.0]).to_sparse(),
    }
    state = hvd.elastic.TorchState(values=copy.deepcopy(values) if job.rank == 0 else {})
    state.sync()
    for name, value in values.items():
        assert state.values[name].dtype == value.dtype, name
        assert torch.equal(state.values[name].to_dense(), value.to_dense()), name


def test_a_commit_uses_the_memory_of_an_older_copy_again(job, epochs):
    model, optimizer = made()
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer)
    places = []
    for _ in range(4):
        step(model, optimizer, 1)
        state.commit()
        places.append(state._saved["model"].data["hidden.weight"].data_ptr())
    assert places[0] == places[2] != places[1] == places[3]


# ---- samplers ----


@pytest.mark.parametrize("kind", [hvd.elastic.ElasticSampler, hvd.elastic.UnevenElasticSampler])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_ranks_have_every_sample_once_but_for_padding(job, kind, shuffle):
    data = range(10 * job.size + 1)
    sampler = kind(data, shuffle=shuffle, seed=3)
    lists = hvd.allgather_object(list(sampler))
    assert len(sampler) == len(lists[job.rank])
    everything = [index for each in lists for index in each]
    assert set(everything) == set(data)
    if kind is hvd.elastic.ElasticSampler:
        assert {len(each) for each in lists} == {11}
    else:
        assert len(everything) == len(data)
        assert sampler.common_batches(5) == 2 and sampler.common_batches(4) == 3
    assert (lists[0][:3] == [0, job.size, 2 * job.size]) != shuffle


def test_each_epoch_has_another_order_and_all_ranks_the_same(job):
    sampler = hvd.elastic.ElasticSampler(range(50))
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_a_pass_that_was_interrupted_goes_on_without_the_processed_samples(job):
    data = range(8 * job.size)
    sampler = hvd.elastic.ElasticSampler(data)
    seen = list(sampler)[:6]
    sampler.record_batch(0, 3)
    sampler.record_batch(1, 3)
    sampler.set_epoch(0)  # as at the beginning of each epoch
    sampler.reset()
    assert len(sampler) == 2
    everything = hvd.allgather_object(seen + list(sampler))
    assert sorted(index for each in everything for index in each) == list(data)
    sampler.record_batch(0, 2)
    sampler.set_epoch(0)  # the pass is complete, so this is another one
    assert len(sampler) == 8


def test_recorded_indices_count_for_the_same_places_of_all_ranks(job):
    sampler = hvd.elastic.ElasticSampler(range(6 * job.size), seed=2)
    mine = list(sampler)
    sampler.record_indices([mine[4], mine[1]])
    states = hvd.allgather_object(sampler.state_dict())
    assert all(state == states[0] for state in states)
    sampler.reset()
    assert list(sampler) == [mine[0], mine[2], mine[3], mine[5]]
    with pytest.raises(InvalidArgumentError, match="is not one of this rank's samples"):
        sampler.record_indices([mine[4]])


def test_a_state_of_horovods_sampler_can_be_loaded(job):
    sampler = hvd.elastic.ElasticSampler(range(12 * job.size))
    whole = hvd.allgather_object(list(sampler))
    done = [index for each in whole for index in each[:5]]
    sampler.load_state_dict({"epoch": 0, "processed_indices": done})
    assert list(sampler) == whole[job.rank][5:]


def test_wrong_numbers_of_batches_are_refused(job):
    sampler = hvd.elastic.ElasticSampler(range(12))
    for number, size in ((-1, 2), (0, 0)):
        with pytest.raises(InvalidArgumentError, match=f"batch_idx={number}, batch_size={size}"):
            sampler.record_batch(number, size)
    with pytest.raises(InvalidArgumentError, match="positions 0 to 13 .* 12 samples"):
        sampler.load_state_dict({"epoch": 0, "processed": [[0, 13]]})


def test_a_training_sends_nothing_for_its_sampler(job, epochs):
    sampler = hvd.elastic.ElasticSampler(range(100))
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    before = batches_run()
    for i in range(5):
        sampler.record_batch(i, 2)
        state.commit()
    assert batches_run() == before
