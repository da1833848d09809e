#!/usr/bin/env python3
"""A process of an elastic job for benchmarks/elastic.py: the cost of a commit, and the transfer of a state.

    dabkerun -np 2 --min-np 1 python benchmarks/python/elastic_state.py commit --rounds 30
    dabkerun -np 4 --min-np 3 python benchmarks/python/elastic_state.py sync --rounds 30 --host host3

commit  prints the microseconds of a commit without those of its copy, the median of each round
sync    each new process on the host prints the seconds in which it gets the state, and those in which it
        copies the state to its attributes. Then it kills itself, and the next process takes its place
"""

import argparse
import os
import signal
import statistics
import time

import numpy

import dabke
from dabke import elastic

COMMITS = 500  # of a round
clock = time.perf_counter_ns


def commit_us(state):
    """Returns the median time of a commit less the median time of its copy, in microseconds."""
    took = {state.commit: [], state.save: []}
    for _ in range(COMMITS):
        for call, times in took.items():
            begin = clock()
            call()
            times.append(clock() - begin)
    return (statistics.median(took[state.commit]) - statistics.median(took[state.save])) / 1000


def measure_commits(options):
    state = elastic.ObjectState(step=0, weights=numpy.zeros(1024, numpy.float32))

    @elastic.run
    def train(state):
        for _ in range(options.rounds):
            dabke.allreduce(numpy.zeros(2))
            cost = commit_us(state)
            print(f"commit {dabke.rank()} {cost:.3f}", flush=True)

    train(state)


class TimedState(elastic.ObjectState):
    """A state that prints the time in which this process has received it."""

    copied = 0.0  # the seconds of the last restore

    def restore(self):
        begin = time.monotonic()
        super().restore()
        TimedState.copied = time.monotonic() - begin

    def sync(self):
        epoch = dabke.current_epoch()
        lacks_state = epoch.newest_commit is not None and epoch.rank not in epoch.holders
        dabke.barrier()  # the time is that of the transfer, not of a rank that comes late
        begin = time.monotonic()
        super().sync()
        if lacks_state:
            received = time.monotonic() - begin - self.copied
            is_whole = float(self.weights[0]) == float(self.weights[-1]) == 1.0
            print(
                f"sync {received:.6f} copy {self.copied:.6f} holders {len(epoch.holders)} "
                f"{'whole' if is_whole else 'WRONG'}",
                flush=True,
            )


def measure_syncs(options):
    is_newcomer = os.environ["DABKE_HOSTNAME"] == options.host
    weights = numpy.zeros(options.megabytes * 10**6 // 4, numpy.float32)
    state = TimedState(weights=weights, syncs=0)

    @elastic.run
    def train(state):
        state.weights[:] = 1
        is_full = dabke.size() == options.size
        if is_full:
            state.syncs += 1
        dabke.allreduce(numpy.zeros(2))
        state.commit()
        if state.syncs > options.rounds:
            return
        if is_full and is_newcomer:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:  # until that process is lost, or a new one has come
            dabke.allreduce(numpy.zeros(2))
            time.sleep(0.01)
            state.check_host_updates()

    train(state)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("commit", "sync"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--megabytes", type=int, default=100, help="the size of the state (default 100)")
    parser.add_argument("--size", type=int, default=4, help="ranks of the whole job (default 4)")
    parser.add_argument("--host", default="", help="the host whose process is new in each round")
    options = parser.parse_args()
    dabke.init()
    if options.what == "commit":
        measure_commits(options)
    else:
        measure_syncs(options)
    dabke.shutdown()


if __name__ == "__main__":
    main()
