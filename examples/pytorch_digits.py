#!/usr/bin/env python3
"""Data-parallel training of a small neural network on handwritten digits, with PyTorch.

    dabkerun -np 2 python examples/pytorch_digits.py

Each rank trains on its own shard of the images. The optimizer averages the gradients over the ranks while the
backward pass still goes on. So all ranks take the same steps and keep the same weights. Comments (1) to (7)
mark the changes to a script for one process.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import dabke.torch as hvd

DATA = Path(__file__).resolve().parent / "data" / "digits.csv"
PIXELS, CLASSES = 64, 10


def flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument(
        "--batch-size", type=int, default=32, help="images of one step on each rank (default: 32)"
    )
    parser.add_argument("--learning-rate", type=float, default=0.02, help="for one rank (default: 0.02)")
    parser.add_argument("--warmup-epochs", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="rank 0 writes it after each epoch; training goes on from it if it is there",
    )
    return parser.parse_args()


def load(path):
    """Returns training and held-out images, standardised. The held-out fifth is always the same."""
    rows = torch.tensor([[float(number) for number in line.split(",")] for line in path.read_text().split()])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1998))
    rows = rows[order]
    training = len(rows) - len(rows) // 5
    pixels, labels = rows[:, :PIXELS], rows[:, PIXELS].long()
    mean, deviation = pixels[:training].mean(0), pixels[:training].std(0).clamp(min=1.0)
    pixels = (pixels - mean) / deviation
    return TensorDataset(pixels[:training], labels[:training]), TensorDataset(
        pixels[training:], labels[training:]
    )


class Progress:
    """One line of progress on rank 0. On a terminal it is overwritten while an epoch goes on."""

    def __init__(self, epochs, steps):
        self.epochs, self.steps = epochs, steps
        self.is_shown = hvd.rank() == 0
        self.is_live = self.is_shown and sys.stdout.isatty()
        self.began = time.perf_counter()

    def start(self, epoch):
        self.epoch, self.began = epoch, time.perf_counter()

    def step(self, step, loss):
        if self.is_live:
            filled = 20 * (step + 1) // self.steps
            print(
                f"\repoch {self.epoch:2}/{self.epochs} [{'#' * filled}{'.' * (20 - filled)}] loss {loss:.4f}",
                end="",
                flush=True,
            )

    def epoch_is_over(self, loss, accuracy, images):
        if self.is_shown:
            rate = images / (time.perf_counter() - self.began)
            clear = "\r\033[K" if self.is_live else ""
            print(
                f"{clear}epoch {self.epoch:2}/{self.epochs}: loss {loss:.4f}, "
                f"held-out accuracy {100 * accuracy:.1f} %, {rate:,.0f} images/s",
                flush=True,
            )


def train_epoch(model, optimizer, schedule, loader, progress):
    """Returns the average loss of all ranks' images."""
    model.train()
    total, images = 0.0, 0
    for step, (pixels, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixels), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item() * len(labels)
        images += len(labels)
        progress.step(step, loss.item())
    return hvd.metric_average(
        total / images, name="loss", weight=images
    )  # (6) report the average over all ranks


@torch.no_grad()
def accuracy(model, held_out):
    """Returns the accuracy, from 0 to 1. Each rank evaluates every size-th image."""
    model.eval()
    pixels, labels = (each[hvd.rank() :: hvd.size()] for each in held_out.tensors)
    right = (model(pixels).argmax(1) == labels).double().mean().item() if len(labels) else 0.0
    return hvd.metric_average(right, name="accuracy", weight=len(labels))


def main():
    options = flags()
    hvd.init()  # (1) join the job
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())  # (2) one GPU for each rank of a host, if there are GPUs
    torch.set_num_threads(1)  # the layers are too small for several threads
    torch.manual_seed(options.seed)
    training, held_out = load(options.data)
    sampler = DistributedSampler(
        training, num_replicas=hvd.size(), rank=hvd.rank(), seed=options.seed
    )  # (3) train on this rank's shard
    loader = DataLoader(training, batch_size=options.batch_size, sampler=sampler)

    model = nn.Sequential(
        nn.Linear(PIXELS, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES)
    )
    rate = options.learning_rate * hvd.size()  # (4) a larger batch needs a higher rate, ...
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters()
    )  # (5) average the gradients

    done = 0
    if options.checkpoint and hvd.rank() == 0 and options.checkpoint.exists():
        saved = torch.load(options.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["epochs"]
    done = hvd.broadcast_object(done, root_rank=0, name="epochs")
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (7) all ranks begin with rank 0's state
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    steps, warmup = len(loader), int(options.warmup_epochs * len(loader))
    for group in optimizer.param_groups:
        group["lr"], group["initial_lr"] = rate, rate
    left = max(1, options.epochs * steps - warmup)
    schedule = hvd.WarmupLR(
        optimizer,
        warmup,  # ... but not from the first step on
        after=lambda step: 0.5 * (1 + math.cos(math.pi * min(1.0, step / left))),
        last_epoch=done * steps - 1,
    )
    progress = Progress(options.epochs, steps)
    if hvd.rank() == 0:
        print(
            f"ranks: {hvd.size()}, training images: {len(training)}, held-out images: {len(held_out)}, "
            f"batch: {options.batch_size} x {hvd.size()}",
            flush=True,
        )
    reached = accuracy(model, held_out)
    for epoch in range(done + 1, options.epochs + 1):
        progress.start(epoch)
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, schedule, loader, progress)
        reached = accuracy(model, held_out)
        progress.epoch_is_over(loss, reached, len(training))
        if options.checkpoint and hvd.rank() == 0:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch},
                options.checkpoint,
            )
    if hvd.rank() == 0:
        print(f"held-out accuracy {100 * reached:.1f} %", flush=True)


if __name__ == "__main__":
    main()
