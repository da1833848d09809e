"""One rank of a job with PyTorch on a CUDA device, started by steps.py. It compares the results with
arithmetic.

    torch_job.py tensors    dabke.torch: tensors, streams, DistributedOptimizer
    torch_job.py ddp        torch.distributed over dabke: collectives, futures, and DDP against DDP over nccl

--cpu runs on the host, to test the program itself. DDP is then compared with gloo, and streams are not
tested.
"""

import statistics
import sys
import threading
import time

import torch

STEPS, SAMPLES, RATE = 20, 8, 0.1
SLEEP_SECONDS = 0.5
WIDTH, LAYERS, TURNS, STEPS_OF_TURN = 1024, 6, 9, 5


class Late:
    """Keeps the current stream busy for a while before it writes the input; the host continues meanwhile."""

    def __init__(self, device):
        self.cycles = 1_000_000
        for _ in range(2):  # the first turn warms up
            begun = self.begin(device)
            torch.cuda.synchronize(device)
            took = time.monotonic() - begun
        self.cycles = int(self.cycles * SLEEP_SECONDS / took)
        self.device = device

    def begin(self, device):
        begun = time.monotonic()
        torch.cuda._sleep(self.cycles)
        return begun

    def write(self, value):
        self.begun = self.begin(self.device)
        return torch.full((1001,), value, device=self.device)

    def check_host_is_early(self):
        took = time.monotonic() - self.begun
        assert took < SLEEP_SECONDS / 2, f"the host waited for {took:.3f} s"


# ---- dabke.torch ----


def check_tensors(hvd, device):
    rank, size = hvd.rank(), hvd.size()
    ranks = size * (size + 1) // 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        x = (torch.arange(1001, device=device) % 7 * (rank + 1)).to(dtype)
        got = hvd.allreduce(x, name=f"sum.{dtype}", op=hvd.Sum)
        assert got.device == x.device and torch.equal(
            got, (torch.arange(1001, device=device) % 7 * ranks).to(dtype)
        ), got
    got = hvd.allgather(torch.full((rank + 1, 3), float(rank), device=device), name="rows")
    want = torch.cat([torch.full((other + 1, 3), float(other), device=device) for other in range(size)])
    assert torch.equal(got, want), got
    got = hvd.broadcast(torch.full((5,), float(rank), device=device), root_rank=size - 1, name="root")
    assert torch.equal(got, torch.full((5,), float(size - 1), device=device)), got


def check_streams(hvd, device):
    """Checks that the stream waits for the result and the host does not, on another stream too."""
    if device.type != "cuda":
        return
    late, other = Late(device), torch.cuda.Stream(device)
    ranks = hvd.size() * (hvd.size() + 1) / 2
    for stream in (torch.cuda.current_stream(device), other):
        with torch.cuda.stream(stream):
            for _ in range(3):
                got = hvd.allreduce(late.write(float(hvd.rank() + 1)), name="late", op=hvd.Sum) * 2
                late.check_host_is_early()
                assert got.eq(2 * ranks).all(), got  # eq() waits for the stream


def make_model(device):
    torch.manual_seed(7)
    return (
        torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        .double()
        .to(device)
    )


def weights_of(model):
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def train(model, optimizer, samples, size):
    torch.manual_seed(11)
    for _ in range(STEPS):
        x = torch.rand(SAMPLES * size, 6, dtype=torch.float64)
        x, y = x[samples], x.sum(1, keepdim=True)[samples]
        device = next(model.parameters()).device
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    return weights_of(model)


def check_trained(model, optimizer, rank, size):
    """Checks that training on the rank's part of the samples gives the result of one process with all
    samples."""
    got = train(model, optimizer, slice(rank * SAMPLES, (rank + 1) * SAMPLES), size)
    alone = make_model("cpu")
    want = train(alone, torch.optim.SGD(alone.parameters(), lr=RATE), slice(None), size)
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-12), (got - want).abs().max()


def check_optimizer(hvd, device):
    for how in ({}, {"groups": 1}):
        model = make_model(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **how)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        check_trained(model, optimizer, hvd.rank(), hvd.size())
        optimizer.state_dict()  # raises the last failure


def run_tensors(device_of):
    import dabke.torch as hvd
    from dabke.torch import device_streams

    hvd.init()
    device = device_of(hvd.local_rank())
    groups = (check_tensors, check_streams, check_optimizer)
    for check in groups:
        check(hvd, device)
    device_streams.raise_failures()
    assert len(device_streams._unobserved) < 100, len(device_streams._unobserved)
    if hvd.rank() == 0:
        print(f"PyTorch {torch.__version__}, {hvd.size()} ranks: {len(groups)} groups of checks passed")
    hvd.shutdown()


# ---- torch.distributed ----


def check_collectives(dist, device):
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(4.0 * size, device=device) + rank
    every = [torch.arange(4.0 * size, device=device) + other for other in range(size)]
    total = torch.stack(every).sum(0)
    part = slice(4 * rank, 4 * rank + 4)

    def check(got, want):
        assert got.device == mine.device and torch.equal(got, want), (got, want)

    got = mine.clone()
    dist.all_reduce(got)
    check(got, total)
    got = mine.clone()
    dist.broadcast(got, size - 1)
    check(got, every[-1])
    parts = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(parts, mine)
    for got, want in zip(parts, every):
        check(got, want)
    got = torch.empty(4, device=device)
    dist.reduce_scatter_tensor(got, mine)
    check(got, total[part])
    got = torch.empty_like(mine)
    dist.all_to_all_single(got, mine)
    check(got, torch.cat([each[part] for each in every]))
    strided = mine.repeat_interleave(2)[::2]  # takes the route through copies
    dist.all_reduce(strided)
    check(strided, total)
    sparse = torch.sparse_coo_tensor(torch.tensor([[rank, size]], device=device), mine[:2] + 1, (size + 1,))
    dist.all_reduce(sparse)
    want = torch.zeros(size + 1, device=device)
    for other, values in enumerate(every):
        want[other] += values[0] + 1
        want[size] += values[1] + 1
    check(sparse.to_dense(), want)


def check_futures(dist, device):
    """Checks that wait() and futures make streams wait, and that the host does not wait."""
    if device.type != "cuda":
        return
    late, size = Late(device), dist.get_world_size()
    total = size * (size + 1) / 2
    dist.all_reduce(torch.ones(1001, device=device))
    for stream in (torch.cuda.current_stream(device), torch.cuda.Stream(device)):
        with torch.cuda.stream(stream):
            x = late.write(float(dist.get_rank() + 1))
            dist.all_reduce(x, async_op=True).wait()
            doubled = x * 2
            late.check_host_is_early()
            assert doubled.eq(2 * total).all(), doubled
            x = late.write(float(dist.get_rank() + 1))
            called = threading.Event()
            future = (
                dist.all_reduce(x, async_op=True)
                .get_future()
                .then(lambda done: (called.set(), done.value()[0] * 2)[1])
            )
            assert called.wait(60)
            doubled = future.wait() + 1
            late.check_host_is_early()
            assert doubled.eq(2 * total + 1).all(), doubled


def check_ddp(dist, device):
    model = make_model(device)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    check_trained(
        parallel, torch.optim.SGD(parallel.parameters(), lr=RATE), dist.get_rank(), dist.get_world_size()
    )


class Trained:
    """A larger model over one backend. Models over all backends have the same seeds."""

    def __init__(self, device, group):
        torch.manual_seed(7)
        layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(*layers).to(device)
        self.parallel = torch.nn.parallel.DistributedDataParallel(self.model, process_group=group)
        self.optimizer = torch.optim.SGD(self.parallel.parameters(), lr=0.01)
        self.device, self.generator = device, torch.Generator().manual_seed(11 + torch.distributed.get_rank())

    def settle(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        torch.distributed.barrier()

    def seconds_of_turn(self):
        data = [torch.rand(32, WIDTH, generator=self.generator).to(self.device) for _ in range(STEPS_OF_TURN)]
        self.settle()
        begun = time.monotonic()
        for x in data:
            self.optimizer.zero_grad()
            self.parallel(x).square().mean().backward()
            self.optimizer.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return (time.monotonic() - begun) / STEPS_OF_TURN


def compare_ddp(dist, device):
    """Runs DDP over dabke and over the other backend in turns. Compares weights, and times in pairs."""
    other = "nccl" if device.type == "cuda" else "gloo"
    ours, theirs = Trained(device, None), Trained(device, dist.new_group(backend=other))
    # The first two turns warm up.
    turns = [(ours.seconds_of_turn(), theirs.seconds_of_turn()) for _ in range(TURNS + 2)][2:]
    got, want = weights_of(ours.model), weights_of(theirs.model)
    assert torch.isfinite(got).all() and torch.allclose(got, want, rtol=1e-4, atol=1e-6), (
        (got - want).abs().max()
    )
    ratios = sorted(mine / its for mine, its in turns)
    mine, its = (statistics.median(each) * 1e3 for each in zip(*turns))
    if dist.get_rank() == 0:
        size = dist.get_world_size()
        print(
            f"figure: a step of DDP, {got.numel() * 4 / (1 << 20):.1f} MiB of gradients, "
            f"{size} rank{'s' if size > 1 else ''} | "
            f"{mine:.3f} ms over dabke, {its:.3f} ms over {other}: {statistics.median(ratios):.3f} times, "
            f"paired ({ratios[0]:.3f} to {ratios[-1]:.3f}); "
            f"the weights after {(TURNS + 2) * STEPS_OF_TURN} steps are equal within 1e-4"
        )


def run_ddp(device_of):
    import dabke.distributed  # noqa: F401
    import torch.distributed as dist

    dist.init_process_group("dabke")
    import dabke

    device = device_of(dabke.local_rank())
    groups = (check_collectives, check_futures, check_ddp, compare_ddp)
    for check in groups:
        check(dist, device)
    if dist.get_rank() == 0:
        print(
            f"PyTorch {torch.__version__}, {dist.get_world_size()} ranks: "
            f"{len(groups)} groups of checks passed"
        )
    dist.destroy_process_group()


def main():
    def device_of(local_rank):
        if "--cpu" in sys.argv:
            return torch.device("cpu")
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device

    {"tensors": run_tensors, "ddp": run_ddp}[sys.argv[1]](device_of)


if __name__ == "__main__":
    main()
