#!/usr/bin/env python3
"""An elastic benchmark on synthetic images, with PyTorch.

    dabkerun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh \\
        python examples/elastic_benchmark.py

Measures images per second in each iteration, while ranks are lost and come.
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

import dabke.torch as hvd


def flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=16, help="images of one step on each rank")
    parser.add_argument("--iterations", type=int, default=10, help="measurements (default: 10)")
    parser.add_argument("--batches", type=int, default=10, help="steps of one measurement (default: 10)")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="for one rank (default: 0.01)")
    return parser.parse_args()


def main():
    options = flags()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    images = torch.randn(options.batch_size, 3, 32, 32)
    labels = torch.randint(0, 10, (options.batch_size,))
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, iteration=0, batch=0)

    def adapt():
        """Called after each change."""
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * hvd.size()
        if hvd.rank() == 0:
            print(f"now {hvd.size()} ranks", flush=True)

    state.register_reset_callbacks([adapt])

    @hvd.elastic.run
    def benchmark(state):
        while state.iteration < options.iterations:
            began, first = time.perf_counter(), state.batch
            while state.batch < options.batches:
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                optimizer.step()
                state.batch += 1
                state.commit()
            seconds = time.perf_counter() - began
            rate = options.batch_size * (options.batches - first) / seconds
            if hvd.rank() == 0:
                print(
                    f"iteration {state.iteration + 1}: {rate:,.0f} images/s a rank, "
                    f"{rate * hvd.size():,.0f} with {hvd.size()} ranks",
                    flush=True,
                )
            state.iteration, state.batch = state.iteration + 1, 0
            state.commit()

    benchmark(state)
    if hvd.rank() == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
