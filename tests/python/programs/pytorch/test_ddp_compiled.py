"""torch.compile over the torch.distributed backend. It needs a C++ compiler."""

import shutil

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(
        tuple(int(each) for each in torch.__version__.split(".")[:2]) < (2, 6),
        reason="this version of torch.compile does not support this Python",
    ),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


def test_compiled_collectives_and_a_compiled_model(run):
    done = run(
        """
import torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
import dabke.distributed

dist.init_process_group("dabke")
rank, size = dist.get_rank(), dist.get_world_size()

@torch.compile(fullgraph=True)
def collectives(x):
    total = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
    gathered = functional.all_gather_tensor(total + 1, 0, dist.group.WORLD)
    return functional.reduce_scatter_tensor(gathered, "avg", 0, dist.group.WORLD) * 3

print("collectives", collectives(torch.ones(2)).tolist())

@torch.compile
def in_place(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1

print("in place", in_place(torch.ones(2)).tolist())

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
ddp = torch.compile(torch.nn.parallel.DistributedDataParallel(model))
inputs = torch.randn(size, 2, 4)
for _ in range(3):
    model.zero_grad()
    ddp(inputs[rank]).mean().backward()
mine = [each.grad.clone() for each in model.parameters()]
model.zero_grad()
model(inputs.view(-1, 4)).mean().backward()
print("model", all(torch.allclose(a, b.grad, atol=1e-6) for a, b in zip(mine, model.parameters())))
dist.destroy_process_group()
"""
    )
    assert done.code == 0, done.output
    expected = ["collectives [15.0, 15.0]", "in place [5.0, 5.0]", "model True"]
    assert done.lines_of(0) == done.lines_of(1) == expected, done.output
