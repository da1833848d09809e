"""A rank of a random elastic job: trains, and logs each step for the judge.

The environment gives the plan:
    ELASTIC_LOGS    the folder for the log of each process, one JSON object a line
    ELASTIC_STEPS   the number of steps
    ELASTIC_SAMPLES the number of samples of a pass
    ELASTIC_PAUSE   seconds of each step
    ELASTIC_DEATHS  JSON: by worker number, the phase, the visit of it, and the seconds from its beginning at
                    which the process kills itself
    ELASTIC_MISTAKE the planted mistake: ignore-roster, or one-rounds (one rank rounds a sum otherwise)

A step has two gradients. That of whole numbers is exact in any order of adding. The other one, thirds in
float32, is not: its bits are equal only if all ranks have added in the same order.
"""

import json
import os
import random
import signal
import threading
import time

import numpy as np

import dabke
from dabke import elastic

WORKER = int(os.environ["DABKE_ELASTIC_WORKER"])
STEPS = int(os.environ["ELASTIC_STEPS"])
SAMPLES = int(os.environ["ELASTIC_SAMPLES"])
PAUSE = float(os.environ["ELASTIC_PAUSE"])
DEATHS = json.loads(os.environ.get("ELASTIC_DEATHS", "{}"))
MISTAKE = os.environ.get("ELASTIC_MISTAKE", "")

_log = open(os.path.join(os.environ["ELASTIC_LOGS"], f"{WORKER}.jsonl"), "a", buffering=1)
_visits = {}


def log(event, **facts):
    _log.write(json.dumps({"event": event, "time": time.time(), "worker": WORKER, **facts}) + "\n")


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


class Phase:
    """A part of the program in which the plan may kill the process."""

    def __init__(self, name):
        self.name, self.timer = name, None

    def __enter__(self):
        visit = _visits[self.name] = _visits.get(self.name, 0) + 1
        phase, at_visit, delay = DEATHS.get(str(WORKER), ("", 0, 0))
        if (phase, at_visit) == (self.name, visit):
            self.timer = threading.Timer(delay, kill_this_process)
            self.timer.start()
        return self

    def __exit__(self, *_):
        # A death that was planned for this phase happens, if only in the next one.
        return False


class LoggedState(elastic.ObjectState):
    """A state that notes its phases."""

    def sync(self):
        with Phase("sync"):
            super().sync()

    def commit(self):
        with Phase("commit"):
            super().commit()


def order_of(number):
    """The samples of a pass in its order."""
    order = list(range(SAMPLES))
    random.Random(number).shuffle(order)
    return order


def thirds(samples):
    """The inexact gradient of samples. A rank without a sample brings zeros."""
    total = np.zeros(4, dtype=np.float32)
    for sample in samples:
        total += np.float32(sample + 1) / np.arange(3, 11, 2, dtype=np.float32)
    return total


def bits_of(array):
    return array.tobytes().hex()


def contribution(sample, number):
    return np.array([1, sample + 1, (sample + 1) ** 2, number + 1], dtype=np.float64)


@elastic.run
def train(state):
    epoch = dabke.current_epoch()
    log("epoch", epoch=epoch.number, rank=epoch.rank, size=epoch.size, step=state.step)
    while state.step < STEPS:
        done = set(state.done)
        rest = [sample for sample in order_of(state.number) if sample not in done]
        batch = rest[: epoch.size]
        mine = batch[epoch.rank :: epoch.size]
        gradient = np.zeros(4)
        for sample in mine:
            gradient += contribution(sample, state.number)
        facts = {"epoch": epoch.number, "rank": epoch.rank, "size": epoch.size, "step": state.step}
        log("begin", number=state.number, samples=mine, **facts)
        total = dabke.allreduce(gradient, op=dabke.Sum, name="gradient")
        inexact = dabke.allreduce(thirds(mine), op=dabke.Sum, name="inexact")
        if MISTAKE == "one-rounds" and epoch.rank == epoch.size - 1:
            inexact[0] = np.nextafter(inexact[0], np.float32(np.inf))
        state.weights = state.weights + total
        state.inexact_weights = state.inexact_weights + inexact
        state.done = [*state.done, *batch]
        if len(state.done) == SAMPLES:
            state.done, state.number = [], state.number + 1
        state.step += 1
        log(
            "end",
            total=total.tolist(),
            weights=state.weights.tolist(),
            inexact=inexact.tolist(),
            inexact_bits=bits_of(inexact),
            inexact_weights_bits=bits_of(state.inexact_weights),
            **facts,
        )
        time.sleep(PAUSE)
        state.commit()
        log("commit", **facts)


def main():
    log("start", host=os.environ["DABKE_HOSTNAME"])
    if MISTAKE == "ignore-roster":
        plant_ignore_roster()
    with Phase("init"):
        dabke.init()
    state = LoggedState(
        step=0, number=0, done=[], weights=np.zeros(4), inexact_weights=np.zeros(4, np.float32)
    )
    real = dabke.next_epoch

    def next_epoch(*arguments):
        with Phase("next"):
            return real(*arguments)

    from dabke import epochs

    epochs.next_epoch = next_epoch
    train(state)
    log(
        "finish",
        weights=state.weights.tolist(),
        inexact_weights_bits=bits_of(state.inexact_weights),
        step=state.step,
    )
    dabke.shutdown()


def plant_ignore_roster():
    """Makes each rank behave like a holder of the newest commit, against the roster."""
    import dataclasses

    from dabke import epochs

    real = epochs.current_epoch

    def current_epoch():
        found = real()
        return dataclasses.replace(found, holders=tuple(range(found.size)))

    epochs.current_epoch = current_epoch


if __name__ == "__main__":
    main()
