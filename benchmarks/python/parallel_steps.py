#!/usr/bin/env python3
"""Measures training steps whose communication is not that of DDP, over Dabke beside Gloo.

    dabkerun -np 2 python benchmarks/python/parallel_steps.py [--rounds 15] [--batch-size 16]

fsdp      fully_shard of PyTorch (FSDP2): each rank keeps its part of each layer, gathers the layer before it
          computes, and reduces its gradients to their parts
pipeline  a GPipe schedule: each rank has its layers, and sends what they compute to the next rank, for four
          parts of the batch one after the other

The model has seven linear layers with 25 million parameters. Both backends are in the same processes, and run
in turns. "ms" is the median time of a step, "/ Gloo" the median of the ratios of single rounds.
"""

import argparse
import statistics

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from turns import measure, ratio

import dabke.distributed  # noqa: F401

PARTS_OF_A_BATCH = 4
STEPS_OF_A_TURN = 3


def make_layers():
    torch.manual_seed(1)
    sizes = [1024] + [2048] * 6 + [1000]
    return [torch.nn.Linear(first, second) for first, second in zip(sizes, sizes[1:])]


def in_series(layers):
    parts = []
    for layer in layers:
        parts += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def sharded_step(group, inputs, targets):
    """A step of the whole model on this rank's batch."""
    mesh = DeviceMesh.from_group(group, "cpu")
    model = in_series(make_layers())
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def pipeline_step(group, inputs, targets):
    """A step of this rank's layers, with the batch of rank 0 and the targets of the last rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    layers = make_layers()
    begins = [round(number * len(layers) / ranks) for number in range(ranks + 1)]
    module = in_series(layers[begins[rank] : begins[rank + 1]])
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, PARTS_OF_A_BATCH, loss_fn=torch.nn.functional.cross_entropy)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(inputs)
        elif rank == ranks - 1:
            schedule.step(target=targets)
        else:
            schedule.step()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("dabke")
    groups = {"dabke": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    inputs, targets = torch.randn(options.batch_size, 1024), torch.randint(0, 1000, (options.batch_size,))
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks\n{'step':<12}{'ms':>9}{'Gloo ms':>9}{'/ Gloo':>9}")
    for name, make in {"fsdp": sharded_step, "pipeline": pipeline_step}.items():
        steps = {backend: make(group, inputs, targets) for backend, group in groups.items()}
        seen = measure(steps, options.rounds, STEPS_OF_A_TURN)
        if dist.get_rank() == 0:
            ours, theirs = seen["dabke"].seconds, seen["gloo"].seconds
            print(
                f"{name:<12}{1e3 * statistics.median(ours):>9.1f}{1e3 * statistics.median(theirs):>9.1f}"
                f"{ratio(ours, theirs):>9.2f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
