"""A training of three ranks whose rank 0 is killed, and replaced, as text for the programs of tests."""

import collections

FLAGS = ("-np", "3", "--min-np", "2", "--max-np", "3", "--blacklist-cooldown-range", "0.1", "0.1")
RATE = 0.125
BEGIN = f"""
import os, signal, sys, time
import torch
import dabke, dabke.torch as hvd

RATE = {RATE}

def data_of(step):
    return torch.tensor([float(step % 8), float(hvd.rank()), 1.0])

def epoch():
    return dabke.current_epoch().number

def die_once(step):
    if (epoch(), hvd.rank(), step) == (1, 0, 20):
        os.kill(os.getpid(), signal.SIGKILL)

def note(step):
    with open(f"{{sys.argv[1]}}/{{os.getpid()}}", "a") as log:
        print(epoch(), step, hvd.size(), file=log)

def is_done(steps_here):
    '''With all three ranks again, after a loss, twenty steps are enough. The same on every rank.'''
    if epoch() > 1:
        time.sleep(0.01)
    return epoch() > 1 and hvd.size() == 3 and steps_here == 20
"""


def weights_by_arithmetic(folder, steps, momentum=0.0):
    """Replays the steps, each with the number of ranks with which it was done for the last time.

    Returns the weights, and the number of steps for each number of ranks.
    """
    size_of = {}
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            epoch, step, size = map(int, line.split())
            size_of[step] = max(size_of.get(step, (0, 0)), (epoch, size))
    weights, moving = [0.0] * 3, [0.0] * 3
    for step in range(steps):
        size = size_of[step + 1][1]
        mean = [step % 8, sum(range(size)) / size, 1]
        moving = [momentum * old + new for old, new in zip(moving, mean)]
        weights = [weight - RATE * each for weight, each in zip(weights, moving)]
    return weights, collections.Counter(size for _, size in size_of.values())
