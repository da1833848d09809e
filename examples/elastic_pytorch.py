#!/usr/bin/env python3
"""Elastic training of a small neural network on handwritten digits, with PyTorch.

    dabkerun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python examples/elastic_pytorch.py

Training goes on when ranks are lost and when new ones come. Comments (1) to (5) mark the changes to a script
for a job of fixed size, such as pytorch_digits.py.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from pytorch_digits import CLASSES, DATA, PIXELS, accuracy, load
from torch import nn
from torch.utils.data import DataLoader

import dabke.torch as hvd

BATCHES_PER_COMMIT = 5


def flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument(
        "--batch-size", type=int, default=32, help="images of one step on each rank (default: 32)"
    )
    parser.add_argument("--learning-rate", type=float, default=0.02, help="for one rank (default: 0.02)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    return parser.parse_args()


def main():
    options = flags()
    hvd.init()
    torch.set_num_threads(1)  # the layers are too small for several threads
    torch.manual_seed(options.seed)
    training, held_out = load(options.data)
    model = nn.Sequential(
        nn.Linear(PIXELS, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    # (1) Deals out the images that the ranks have not processed yet, whatever their number was.
    sampler = hvd.elastic.ElasticSampler(training, seed=options.seed)
    loader = DataLoader(training, batch_size=options.batch_size, sampler=sampler)
    # (2) All that must be equal on all ranks, and that a newcomer needs.
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)

    def adapt_rate():
        """(3) Called after each change: the rate follows the number of ranks."""
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * hvd.size()

    state.register_reset_callbacks([adapt_rate])

    @hvd.elastic.run  # (4) called again after each change, with the state of the newest commit
    def train(state):
        while state.epoch < options.epochs:
            model.train()
            for batch, (pixels, labels) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(pixels), labels)
                loss.backward()
                optimizer.step()
                state.sampler.record_batch(batch, options.batch_size)
                if (batch + 1) % BATCHES_PER_COMMIT == 0:
                    state.commit()  # (5) training goes on from here after a failure
            reached = accuracy(model, held_out)
            state.epoch += 1
            if hvd.rank() == 0:
                print(
                    f"epoch {state.epoch:2}/{options.epochs}: {hvd.size()} ranks, "
                    f"held-out accuracy {100 * reached:.1f} %",
                    flush=True,
                )
            state.sampler.set_epoch(state.epoch)
            state.commit()

    train(state)
    reached = accuracy(model, held_out)
    if hvd.rank() == 0:
        print(f"held-out accuracy {100 * reached:.1f} %", flush=True)


if __name__ == "__main__":
    main()
