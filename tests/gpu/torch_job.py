"""One rank of a job of dabke.torch on a CUDA device, started by steps.py: what comes out is what arithmetic says.

--cpu: on the host, to try the program itself.
"""
import sys

import torch

import dabke.torch as hvd

STEPS, SAMPLES, RATE = 20, 8, 0.1


def check_tensors(device):
    rank, size = hvd.rank(), hvd.size()
    ranks = size * (size + 1) // 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        x = (torch.arange(1001, device=device) % 7 * (rank + 1)).to(dtype)
        got = hvd.allreduce(x, name=f'sum.{dtype}', op=hvd.Sum)
        assert got.device == x.device and torch.equal(got, (torch.arange(1001, device=device) % 7 * ranks).to(dtype)), got
    got = hvd.allgather(torch.full((rank + 1, 3), float(rank), device=device), name='rows')
    want = torch.cat([torch.full((other + 1, 3), float(other), device=device) for other in range(size)])
    assert torch.equal(got, want), got
    got = hvd.broadcast(torch.full((5,), float(rank), device=device), root_rank=size - 1, name='root')
    assert torch.equal(got, torch.full((5,), float(size - 1), device=device)), got


def make_model(device):
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double().to(device)


def train(model, optimizer, samples):
    torch.manual_seed(11)
    for _ in range(STEPS):
        x = torch.rand(SAMPLES * hvd.size(), 6, dtype=torch.float64)
        x, y = x[samples], x.sum(1, keepdim=True)[samples]
        device = next(model.parameters()).device
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def check_optimizer(device):
    """Each rank trains on its part of the samples, and gets what one process gets of them all."""
    model = make_model(device)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    part = slice(hvd.rank() * SAMPLES, (hvd.rank() + 1) * SAMPLES)
    got = train(model, optimizer, part)
    alone = make_model('cpu')
    want = train(alone, torch.optim.SGD(alone.parameters(), lr=RATE), slice(None))
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-12), (got - want).abs().max()


def main():
    hvd.init()
    device = torch.device('cpu')
    if '--cpu' not in sys.argv:
        device = torch.device('cuda', hvd.local_rank() % torch.cuda.device_count())
        torch.cuda.set_device(device)
    check_tensors(device)
    check_optimizer(device)
    if hvd.rank() == 0:
        print(f'PyTorch {torch.__version__}, {hvd.size()} ranks: 2 groups of checks passed')
    hvd.shutdown()


if __name__ == '__main__':
    main()
