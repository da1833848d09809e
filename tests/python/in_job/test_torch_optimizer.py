"""Training by all ranks gives the same result as one process with all their batches as one batch."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")
nn = torch.nn

SGD = (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})
ADAM = (torch.optim.Adam, {"lr": 0.01})
BATCH = 4  # images per rank


def two_layers():
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def convolution():
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(4, 3)).to(
        memory_format=torch.channels_last
    )


def batches(job, steps, shape=(5,)):
    generator = torch.Generator().manual_seed(7)
    return [
        torch.randn(job.size * BATCH, *shape, generator=generator, dtype=torch.float64) for _ in range(steps)
    ]


def own(job, batch):
    return batch[job.rank * BATCH : (job.rank + 1) * BATCH]


def made(build, optimizer=SGD, **distributed):
    """Returns a model that is the same on all ranks, and its optimizer. Without `distributed`, the optimizer
    is the plain one."""
    torch.manual_seed(3)
    model = build().double()
    kind, arguments = optimizer
    plain = kind(model.parameters(), **arguments)
    if not distributed:
        return model, plain
    distributed.setdefault("named_parameters", model.named_parameters())
    return model, hvd.DistributedOptimizer(plain, **distributed)


def loss_of(model, batch):
    return model(batch).square().mean()


def train(model, optimizer, data, set_to_none=True):
    for batch in data:
        optimizer.zero_grad(set_to_none=set_to_none)
        loss_of(model, batch).backward()
        optimizer.step()
    return weights(model)


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def assert_learns_alike(
    job, build, shape=(5,), optimizer=SGD, set_to_none=True, tolerance=1e-12, **distributed
):
    data = batches(job, 6, shape)
    alone = train(*made(build, optimizer), data)
    together = train(
        *made(build, optimizer, **{"op": hvd.Average, **distributed}),
        [own(job, each) for each in data],
        set_to_none,
    )
    assert torch.allclose(together, alone, atol=tolerance, rtol=tolerance), (together - alone).abs().max()


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("gradient_memory", [False, True])
@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=lambda each: each[0].__name__)
def test_the_ranks_learn_what_one_process_learns(job, optimizer, gradient_memory, set_to_none):
    assert_learns_alike(
        job, two_layers, optimizer=optimizer, gradient_memory=gradient_memory, set_to_none=set_to_none
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"groups": 1},
        {"num_groups": 2},
        {"groups": 100},
        {"gradient_predivide_factor": 3.0},
        {"named_parameters": None},
        {"compression": hvd.Compression.none, "groups": 2, "gradient_memory": False},
    ],
    ids=str,
)
def test_grouped_and_scaled_gradients_give_the_same(job, arguments):
    assert_learns_alike(job, two_layers, **arguments)


def test_groups_may_be_lists_of_parameters(job):
    model, optimizer = made(two_layers)
    first, second, third, _ = model.parameters()
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), groups=[[first, third], [second]]
    )
    data = batches(job, 3)
    assert torch.allclose(
        train(model, optimizer, [own(job, each) for each in data]), train(*made(two_layers), data)
    )


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compressed_gradients_come_close(job, compression):
    assert_learns_alike(job, two_layers, compression=getattr(hvd.Compression, compression), tolerance=2e-2)


@pytest.mark.parametrize("gradient_memory", [False, True])
def test_weights_may_lie_in_any_order_of_their_dimensions(job, gradient_memory):
    assert_learns_alike(job, convolution, (3, 2, 2), gradient_memory=gradient_memory)


def test_gradients_lie_in_shared_memory_and_stay_there(job):
    model, optimizer = made(two_layers, op=hvd.Average)
    data = own(job, batches(job, 1)[0])
    places = []
    for set_to_none in (True, False, True):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss_of(model, data).backward()
        optimizer.step()
        places.append([each.grad.data_ptr() for each in model.parameters()])
    if job.size > 1:
        assert places[0] == places[1] == places[2]


def test_gradients_of_several_passes_add_up(job):
    data = batches(job, 6)
    model, optimizer = made(two_layers)
    for first, second in zip(data[::2], data[1::2]):
        optimizer.zero_grad()
        (loss_of(model, first) + loss_of(model, second)).backward()
        optimizer.step()
    for set_to_none in (False, True):
        together, shared = made(two_layers, backward_passes_per_step=2)
        for first, second in zip(data[::2], data[1::2]):
            shared.zero_grad(set_to_none=set_to_none)
            loss_of(together, own(job, first)).backward()
            loss_of(together, own(job, second)).backward()
            shared.step()
        assert torch.allclose(weights(together), weights(model))


def test_more_passes_than_said_are_refused(job):
    if job.size == 1:
        return
    model, optimizer = made(two_layers, op=hvd.Average)
    data = own(job, batches(job, 1)[0])
    loss_of(model, data).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, data).backward()
    optimizer.synchronize()
    optimizer.set_backward_passes_per_step(2)
    for _ in range(2):
        loss_of(model, data).backward()
    optimizer.step()


def test_fewer_passes_than_said_are_reduced_by_the_step(job):
    data = batches(job, 1)
    alone = train(*made(two_layers), data)
    model, optimizer = made(two_layers, backward_passes_per_step=5)
    assert torch.allclose(train(model, optimizer, [own(job, data[0])]), alone)


class WithUnused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = nn.Linear(5, 3), nn.Linear(5, 3)
        self.pick = None

    def forward(self, x):
        return (self.other if self.pick else self.used)(x)


@pytest.mark.parametrize("groups", [None, 1])
def test_a_parameter_that_some_ranks_do_not_use_counts_as_zeros(job, groups):
    model, optimizer = made(WithUnused, op=hvd.Sum, groups=groups)
    data = own(job, batches(job, 1)[0])
    model.pick = job.rank > 0
    loss_of(model, data).backward()
    expected = {}
    for index, linear in enumerate((model.used, model.other)):
        mine = (
            torch.autograd.grad(loss_of(model, data), linear.weight)[0]
            if (job.rank > 0) == bool(index)
            else torch.zeros_like(linear.weight)
        )
        expected[linear] = hvd.allreduce(mine, op=hvd.Sum)
    optimizer.synchronize()
    for linear, want in expected.items():
        if job.size > 1 or linear.weight.grad is not None:
            assert torch.allclose(linear.weight.grad, want)


def test_frozen_parameters_are_left_alone_until_they_are_thawed(job):
    torch.manual_seed(1)
    model = two_layers().double()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    data = own(job, batches(job, 1)[0])
    train(model, optimizer, [data])
    assert torch.equal(model[0].weight, before) and model[0].weight.grad is None
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1, dtype=torch.float64))]})
    model[0].requires_grad_(True)
    train(model, optimizer, [data, data])
    assert not torch.equal(model[0].weight, before)
    everyones = hvd.allgather(weights(model).unsqueeze(0))
    assert all(torch.equal(each, everyones[0]) for each in everyones)


def embedding(sparse):
    return nn.Sequential(nn.Embedding(10, 5, sparse=sparse), nn.Flatten(), nn.Linear(10, 1))


@pytest.mark.parametrize("arguments", [{}, {"sparse_as_dense": True}, {"groups": 1}], ids=str)
def test_sparse_gradients_are_added(job, arguments):
    generator = torch.Generator().manual_seed(5)
    data = [torch.randint(0, 10, (job.size * BATCH, 2), generator=generator) for _ in range(4)]
    plain = (torch.optim.SGD, {"lr": 0.1})
    alone = train(*made(lambda: embedding(False), plain), data)
    model, optimizer = made(lambda: embedding(True), plain, **{"op": hvd.Average, **arguments})
    together = train(model, optimizer, [own(job, each) for each in data])
    assert torch.allclose(together, alone)


def test_sparse_gradients_are_made_dense_where_a_rank_is_alone_too(job):
    sets = [hvd.add_process_set([rank]) for rank in range(job.size)]
    adam = (torch.optim.Adam, {"lr": 0.1})  # takes no sparse gradients
    model, optimizer = made(lambda: embedding(True), adam, sparse_as_dense=True, process_set=sets[job.rank])
    data = [torch.tensor([[1, 2], [2, 3]])] * 3
    assert torch.equal(train(model, optimizer, data), train(*made(lambda: embedding(False), adam), data))
    for each in sets:
        hvd.remove_process_set(each)


def test_a_closure_is_reduced_each_time(job):
    data = batches(job, 3)
    model, optimizer = made(two_layers, op=hvd.Average)
    for batch in data:

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, own(job, batch))
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    assert torch.allclose(weights(model), train(*made(two_layers), data))


def test_gradients_can_be_clipped_between(job):
    data = batches(job, 1)[0]
    model, optimizer = made(two_layers, op=hvd.Average)
    loss_of(model, own(job, data)).backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with optimizer.skip_synchronize():
        optimizer.step()
    plain, single = made(two_layers)
    loss_of(plain, data).backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    single.step()
    assert torch.allclose(weights(model), weights(plain))


def test_a_step_after_synchronize_reduces_no_second_time(job):
    model, optimizer = made(two_layers, op=hvd.Sum)
    loss_of(model, own(job, batches(job, 1)[0])).backward()
    optimizer.synchronize()
    before = [each.grad.clone() for each in model.parameters()]
    with pytest.warns(UserWarning, match="only once"):
        optimizer.step()
    assert all(torch.equal(each.grad, was) for each, was in zip(model.parameters(), before))


def test_gradients_made_by_hand_are_reduced(job):
    model, optimizer = made(two_layers, op=hvd.Sum)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(torch.equal(each.grad, torch.full_like(each, job.size)) for each in model.parameters())


@pytest.mark.parametrize("gradient_memory", [True, False])
def test_gradients_may_lie_in_another_order_on_each_rank(job, gradient_memory):
    weight = nn.Parameter(torch.zeros(4, 3, 2, 2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1), op=hvd.Sum, gradient_memory=gradient_memory
    )
    gradient = torch.arange(48.0).view(weight.shape)
    weight.grad = gradient.clone() if job.rank % 2 == 0 else gradient.to(memory_format=torch.channels_last)
    optimizer.step()
    assert torch.equal(weight.detach(), -job.size * gradient)


def test_zero_grad_is_refused_while_gradients_are_reduced(job):
    if job.size == 1:
        return
    model, optimizer = made(two_layers, op=hvd.Average)
    loss_of(model, own(job, batches(job, 1)[0])).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert all(each.grad is None for each in model.parameters())
    optimizer.zero_grad(set_to_none=False)


def test_the_result_is_the_optimizer_that_was_wrapped(job):
    model, plain = made(two_layers)
    # A scheduler that was made before the wrapping works on the result's groups.
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    data = own(job, batches(job, 1)[0])
    train(model, optimizer, [data])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    later = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(model, optimizer, [data])
    later.step()
    assert optimizer.param_groups[0]["lr"] == 0.025


def test_state_dicts_pass_through(job):
    data = [own(job, each) for each in batches(job, 2)]
    model, optimizer = made(two_layers, ADAM, op=hvd.Average)
    train(model, optimizer, data)
    saved = copy.deepcopy(optimizer.state_dict())
    other, plain = made(two_layers, ADAM)
    plain.load_state_dict(copy.deepcopy(saved))
    again, restored = made(two_layers, ADAM, op=hvd.Average)
    again.load_state_dict(model.state_dict())
    restored.load_state_dict(saved)
    assert torch.allclose(train(again, restored, data), train(model, optimizer, data))


def test_groups_of_parameters_may_come_later(job):
    model, optimizer = made(two_layers, op=hvd.Average)
    extra = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer.add_param_group({"params": [extra], "lr": 1.0})
    data = own(job, batches(job, 1)[0])
    (loss_of(model, data) + (extra * (job.rank + 1)).sum()).backward()
    optimizer.step()
    assert torch.allclose(extra, torch.full_like(extra, -(job.size + 1) / 2))


def test_ranks_outside_the_process_set_train_alone(job):
    if job.size <= 2:
        pytest.skip("a pair needs somebody outside it")
    pair = hvd.add_process_set([0, job.size - 1])
    model, optimizer = made(two_layers, op=hvd.Average, process_set=pair)
    data = batches(job, 2)
    together = train(model, optimizer, [own(job, each) for each in data])
    if pair.included():
        both = [torch.cat([each[:BATCH], each[-BATCH:]]) for each in data]
        assert torch.allclose(together, train(*made(two_layers), both))
    else:
        assert torch.allclose(together, train(*made(two_layers), [own(job, each) for each in data]))
    hvd.remove_process_set(pair)


def test_arguments_that_make_no_sense_are_refused(job):
    model, plain = made(two_layers)
    named = list(model.named_parameters())
    for arguments, text in (
        ({"named_parameters": named + named[:1]}, "twice: 0.weight"),
        ({"named_parameters": named[1:]}, r"lacks 1 of .*\(7, 5\)"),
        ({"named_parameters": list(model.parameters())}, "pairs of a name"),
        ({"groups": [[named[0][1]], [named[0][1]]]}, "in groups twice"),
        ({"groups": [["0.weight"]]}, "lists of parameters"),
        ({"groups": -1}, "negative"),
        ({"num_groups": -1}, "negative"),
        ({"backward_passes_per_step": 0}, "at least 1"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "needs op=Average"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.DistributedOptimizer(plain, **arguments)
    with pytest.raises(NotImplementedError, match="Adasum"):
        hvd.DistributedOptimizer(plain, op=hvd.Adasum)
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(plain))


def test_ranks_with_uneven_data_join(job):
    """Ranks that have more data go on alone. An average is divided by the full size, as in Horovod."""
    model, optimizer = made(two_layers, (torch.optim.SGD, {"lr": 0.1}), op=hvd.Average)
    data = own(job, batches(job, 1)[0])
    for _ in range(job.rank + 1):
        optimizer.zero_grad()
        loss_of(model, data).backward()
        optimizer.step()
    assert hvd.join() == job.size - 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=job.size - 1)
    everyones = hvd.allgather(weights(model).unsqueeze(0))
    assert all(torch.equal(each, everyones[0]) for each in everyones)


@pytest.mark.parametrize("memory", [True, False])
def test_a_gradient_that_autograd_gives_as_a_conjugate_is_reduced(memory, job):
    parameter = nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter], lr=1.0), op=hvd.Sum, gradient_memory=memory
    )
    (parameter.conj() * complex(1, job.rank)).real.sum().backward()
    optimizer.step()
    assert parameter.tolist() == [complex(-job.size, -job.size * (job.size - 1) / 2)] * 3


def test_complex_parameters_are_reduced(job):
    parameter = nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    if job.size > 1:
        with pytest.raises(ValueError, match="complex"):
            hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Max)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Sum)
    (parameter * complex(1, -job.rank)).real.sum().backward()
    optimizer.step()  # the gradients are the conjugates, 1 + rank i
    assert parameter.tolist() == [complex(-job.size, -job.size * (job.size - 1) / 2)] * 3


def test_a_compiled_model_trains_alike(job):
    compile_model = getattr(torch, "compile", None)
    if compile_model is None:
        pytest.skip("this version of PyTorch has no torch.compile")
    data = batches(job, 3)
    alone = train(*made(two_layers), data)
    model, optimizer = made(two_layers, op=hvd.Average)
    compiled = compile_model(model, backend="aot_eager")
    for batch in data:
        optimizer.zero_grad()
        loss_of(compiled, own(job, batch)).backward()
        optimizer.step()
    assert torch.allclose(weights(model), alone)


def test_a_compiled_function_may_reduce(job):
    compile_function = getattr(torch, "compile", None)
    if compile_function is None:
        pytest.skip("this version of PyTorch has no torch.compile")

    def doubled_sum(x):
        return hvd.allreduce(x * 2, op=hvd.Sum, name="compiled") + 1

    got = compile_function(doubled_sum, backend="eager")(torch.full((3,), float(job.rank)))
    assert got.tolist() == [job.size * (job.size - 1) + 1.0] * 3
