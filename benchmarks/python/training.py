#!/usr/bin/env python3
"""Trains one model of 25 million parameters over each available way, in turns, and prints one table.

    python benchmarks/python/training.py [--ranks 1 2 4] [--threads 1] [--rounds 15] [--batch-size 16]
                                         [--bucket-view]

gloo         DistributedDataParallel over torch's own gloo
dabke        DistributedDataParallel over Dabke, by dabke.distributed
dabke.torch  the optimizer of dabke.torch, if this build has it

All ways run in the same processes, one after the other in every round, so other work of the machine disturbs
all of them equally. Each rank has OMP_NUM_THREADS threads to compute with, and the same batch whatever the
number of ranks.

step     one step, forward to optimizer: the median of the rounds, of the slowest rank in each
exposed  its communication that is not hidden by computation: a step less one of `no_sync`, in the same round
scaling  the step of one rank without communication, divided by this step; with fewer cores than ranks, it is
         less than 1
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS_OF_A_ROUND = 3
SKIPPED_ROUNDS = 2
WAYS = ("gloo", "dabke", "dabke.torch")


# ---- in each rank ----


def make_model(torch):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(1024, 2048)]
    for _ in range(5):
        layers += [torch.nn.ReLU(), torch.nn.Linear(2048, 2048)]
    return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(2048, 1000))


class DistributedWay:
    """DistributedDataParallel over a group."""

    def __init__(self, torch, group, bucket_view):
        self.model = torch.nn.parallel.DistributedDataParallel(
            make_model(torch), process_group=group, gradient_as_bucket_view=bucket_view
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.silently = self.model.no_sync


class OptimizerWay:
    """The optimizer of dabke.torch. Silent steps are those of another model, which it does not wrap."""

    def __init__(self, torch, hvd):
        self.model = make_model(torch)
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.model.parameters(), lr=1e-3), named_parameters=self.model.named_parameters()
        )
        self.loud = self.model, self.optimizer
        alone = make_model(torch)
        self.silent = alone, torch.optim.SGD(alone.parameters(), lr=1e-3)

    @contextlib.contextmanager
    def silently(self):
        self.model, self.optimizer = self.silent
        yield
        self.model, self.optimizer = self.loud


def make_ways(torch, dist, bucket_view):
    ways = {
        "gloo": DistributedWay(torch, dist.new_group(backend="gloo"), bucket_view),
        "dabke": DistributedWay(torch, None, bucket_view),
    }
    with contextlib.suppress(ImportError):
        import dabke.torch as hvd

        ways["dabke.torch"] = OptimizerWay(torch, hvd)
    return ways


def seconds_of_a_step(torch, dist, way, inputs, targets):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(STEPS_OF_A_ROUND):
        way.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(way.model(inputs), targets).backward()
        way.optimizer.step()
    mine = torch.tensor([(time.perf_counter() - begin) / STEPS_OF_A_ROUND])
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    return mine.item()


def measure(options):
    import torch
    import torch.distributed as dist

    import dabke.distributed  # noqa: F401

    torch.set_num_threads(options.threads)
    dist.init_process_group("dabke")
    inputs, targets = torch.randn(options.batch_size, 1024), torch.randint(0, 1000, (options.batch_size,))
    ways = make_ways(torch, dist, options.bucket_view)
    seen = {name: [] for name in ways}
    for round_number in range(SKIPPED_ROUNDS + options.rounds):
        for name, way in ways.items():
            step = seconds_of_a_step(torch, dist, way, inputs, targets)
            with way.silently():
                silent = seconds_of_a_step(torch, dist, way, inputs, targets)
            if round_number >= SKIPPED_ROUNDS:
                seen[name].append((step, silent))
    if dist.get_rank() == 0:
        with open(options.result, "w") as file:
            json.dump(seen, file)
    dist.destroy_process_group()


# ---- in the program that starts them ----


def run_job(options, ranks):
    with tempfile.NamedTemporaryFile("r") as file:
        command = [options.dabkerun, "-np", str(ranks), sys.executable, __file__, "--result", file.name]
        for name in ("threads", "rounds", "batch_size"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        command += ["--bucket-view"] if options.bucket_view else []
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
        return json.loads(file.read())


def print_table(results):
    alone = min(
        statistics.median(silent for _, silent in rounds) for rounds in results[min(results)].values()
    )
    print(f"{'ranks':>5}  {'way':<12}{'step ms':>9}{'exposed ms':>12}{'scaling':>9}{'exposed, gloo = 1':>19}")
    for ranks, seen in results.items():
        exposed = {
            way: statistics.median(step - silent for step, silent in rounds) for way, rounds in seen.items()
        }
        for way in WAYS:
            if way not in seen:
                print(f"{ranks:>5}  {way:<12}{'not in this build':>21}")
                continue
            step = statistics.median(step for step, _ in seen[way])
            ratio = exposed[way] / exposed["gloo"] if ranks > 1 and exposed["gloo"] > 0 else float("nan")
            figures = f"{1e3 * step:>9.1f}{1e3 * exposed[way]:>12.1f}{alone / step:>9.2f}{ratio:>19.2f}"
            print(f"{ranks:>5}  {way:<12}{figures}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--rounds", type=int, default=15, help="of three steps of each way and kind")
    parser.add_argument("--batch-size", type=int, default=16, help="of each rank")
    parser.add_argument(
        "--bucket-view", action="store_true", help="gradients lie in the buckets: DDP copies less"
    )
    parser.add_argument("--dabkerun", default="dabkerun", help="which one (default: that of PATH)")
    parser.add_argument("--result", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.result:
        measure(options)
    else:
        print_table({ranks: run_job(options, ranks) for ranks in sorted(options.ranks)})


if __name__ == "__main__":
    main()
