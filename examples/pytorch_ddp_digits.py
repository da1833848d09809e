#!/usr/bin/env python3
"""Trains a small network on handwritten digits with PyTorch's DistributedDataParallel, over Dabke.

    torchrun --nproc-per-node 2 examples/pytorch_ddp_digits.py
    dabkerun -np 2 python examples/pytorch_ddp_digits.py

This is an ordinary script for DistributedDataParallel. Only the import of dabke.distributed and the backend's
name "dabke" are new.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import dabke.distributed  # noqa: F401  registers the backend

DATA = Path(__file__).resolve().parent / "data" / "digits.csv"


def load(path):
    """Returns training images (four fifths) and test images (one fifth), always the same.

    Each image has 8 x 8 standardised pixels, and the digit that it shows.
    """
    rows = torch.tensor([[int(number) for number in line.split(",")] for line in path.read_text().split()])
    images, digits = rows[:, :64].float(), rows[:, 64]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    held_out, training = order[: len(rows) // 5], order[len(rows) // 5 :]
    mean, deviation = images[training].mean(0), images[training].std(0) + 1
    images = (images - mean) / deviation
    return TensorDataset(images[training], digits[training]), TensorDataset(
        images[held_out], digits[held_out]
    )


def train_epoch(model, optimizer, loader):
    """Returns the average loss of all ranks' images, and the number of these images."""
    totals = torch.zeros(2, dtype=torch.float64)
    for images, digits in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), digits)
        loss.backward()  # meanwhile the gradients are averaged over the ranks
        optimizer.step()
        totals += torch.tensor([loss.item() * len(digits), len(digits)])
    dist.all_reduce(totals)
    return totals[0] / totals[1], int(totals[1])


def accuracy(model, dataset):
    """Returns the accuracy in percent. Each rank evaluates its share of the images."""
    images, digits = (each[dist.get_rank() :: dist.get_world_size()] for each in dataset.tensors)
    with torch.no_grad():
        right = (model(images).argmax(1) == digits).sum()
    dist.all_reduce(right)
    return 100.0 * right.item() / len(dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="dabke", help="of torch.distributed: dabke, or gloo to compare")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images of one step of one rank")
    parser.add_argument(
        "--learning-rate", type=float, default=0.05, help="for one rank; multiplied by their number"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the CSV file with the images")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(rank)  # different weights, until DistributedDataParallel sends those of rank 0 to all
    training, held_out = load(options.data)
    sampler = DistributedSampler(training)
    loader = DataLoader(training, batch_size=options.batch_size, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate * size, momentum=0.9)
    if rank == 0:
        print(f"{size} ranks, {len(training)} images to train with, {len(held_out)} to test with")
    for epoch in range(1, options.epochs + 1):
        begin = time.perf_counter()
        sampler.set_epoch(epoch)
        loss, images = train_epoch(model, optimizer, loader)
        if rank == 0:
            speed = images / (time.perf_counter() - begin)
            print(f"epoch {epoch:2}/{options.epochs}: loss {loss:.4f}, {speed:,.0f} images/s", flush=True)
    percent = accuracy(model.module, held_out)
    if rank == 0:
        print(f"accuracy {percent:.1f} %")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
