"""Tensors of a device without a backend: refused, or staged on the host if ``init`` allows it.

The device is one that the program registers with PyTorch. Its memory is the host's, but PyTorch and the
package see a separate device: data moves between the two only by copies.
"""

from far_device import FAR as DEVICE


def test_collectives_refuse_it_until_they_may_stage_it_and_give_results_on_the_device(run):
    done = run(
        DEVICE
        + """
hvd.init()
for call in (hvd.allreduce, hvd.allreduce_async_, hvd.allgather, lambda each: hvd.broadcast_(each, 0), hvd.alltoall,
             hvd.reducescatter, lambda each: hvd.grouped_allreduce([each])):
    try:
        call(torch.ones(2).to("far"))
        print("taken")
    except ValueError as error:
        assert "the tensor is on far:0" in str(error) and "init(host_staging=True)" in str(error), error

hvd.init(host_staging=True)
rank = hvd.rank()
mine = torch.tensor([1.0, 2.0]) * (rank + 1)
there = mine.to("far")
assert values(hvd.allreduce(there, op=hvd.Sum)) == [3, 6]
assert values(hvd.synchronize(hvd.allreduce_async(there))) == [1.5, 3]
in_place = mine.to("far")
assert hvd.allreduce_(in_place, op=hvd.Max) is in_place and values(in_place) == [2, 4]
in_place = mine.to("far")
handle = hvd.allreduce_async_(in_place, op=hvd.Sum)
assert hvd.synchronize(handle) is in_place and values(in_place) == [3, 6]
pair = [mine.to("far"), mine.to("far") * 10]
assert [values(each) for each in hvd.grouped_allreduce(pair, op=hvd.Sum)] == [[3, 6], [30, 60]]
assert values(pair[0]) == mine.tolist()
hvd.grouped_allreduce_(pair, op=hvd.Sum)
assert [values(each) for each in pair] == [[3, 6], [30, 60]]
mixed = [mine.to("far"), mine.clone()]
hvd.grouped_allreduce_(mixed, op=hvd.Sum)
assert values(mixed[0]) == mixed[1].tolist() == [3, 6]
assert values(hvd.allgather(there)) == [1, 2, 2, 4]
assert [values(each) for each in hvd.grouped_allgather([there, there])] == [[1, 2, 2, 4]] * 2
assert values(hvd.broadcast(there, 1)) == [2, 4] and values(there) == mine.tolist()
in_place = mine.to("far")
assert hvd.broadcast_(in_place, 1) is in_place and values(in_place) == [2, 4]
assert values(hvd.alltoall(there)) == [rank + 1, 2 * (rank + 1)]
received, splits = hvd.alltoall(there, splits=[2, 0])
assert values(received) == ([1, 2, 2, 4] if rank == 0 else []) and values(splits) == ([2, 2] if rank == 0 else [0, 0])
assert values(hvd.reducescatter(there, op=hvd.Sum)) == [3 * (rank + 1)]
assert [values(each) for each in hvd.grouped_reducescatter([there], op=hvd.Sum)] == [[3 * (rank + 1)]]
learned = mine.to("far").requires_grad_()
(hvd.allreduce(learned, op=hvd.Sum) * 2).sum().backward()
assert values(learned.grad) == [4, 4]
assert hvd.metric_average(mine.sum().to("far")) == 4.5
print("done")
"""
    )
    assert done.code == 0, done.output
    assert done.lines_of(1) == ["done"], done.output


def test_a_model_that_lies_there_learns_what_it_learns_on_the_host(run):
    done = run(
        DEVICE
        + """
hvd.init(host_staging=True)

def trained(device, passes, **arguments):
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + hvd.rank()), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes, **arguments)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    data = torch.randn(5, 4).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(passes):
            model(data).square().mean().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = optimizer.state[model[0].weight]["momentum_buffer"]
    assert {each.device.type for each in (*model.parameters(), state)} == {device}
    return torch.cat([each.detach().cpu().flatten() for each in (*model.parameters(), state)])

for arguments in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}, {"passes": 2}, {"op": hvd.Sum}):
    there, here = (trained(device, **{"passes": 1, **arguments}) for device in ("far", "cpu"))
    everyones = hvd.allgather(there.unsqueeze(0))
    print(torch.allclose(there, here), torch.equal(everyones[0], everyones[1]))
"""
    )
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["True True"] * 5, done.output
