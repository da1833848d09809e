"""One rank of a random program over the Python package, for the campaign's Python jobs. It mirrors
storm_worker, which uses the C API.

    python_rank.py SEED           runs it; a launcher has started as many processes as it has ranks
    python_rank.py --show SEED    prints how it is started
    python_rank.py --points SEED  prints how often each rank comes to each point

STORM_STEADY, STORM_JOURNAL, STORM_FAULTS, STORM_DEAD, STORM_AGAIN and STORM_PATIENCE are as in tests/storm.
STORM_WORKER is the worker whose helper process strikes.
"""

import collections
import dataclasses
import os
import random
import re
import subprocess
import sys
import threading
import time

DTYPES = ("float32", "float64", "int32", "int64")
KINDS = (
    "allreduce",
    "allreduce",
    "allreduce",
    "grouped",
    "allgather",
    "broadcast",
    "reducescatter",
    "alltoall",
)
OPS = ("Sum", "Average", "Min", "Max")
JOIN_PERCENT, CHANGE_PERCENT = 25, 25


@dataclasses.dataclass
class Call:
    number: int  # unique in the program
    kind: str
    name: str
    dtype: str
    op: str
    rows: int
    in_set: bool  # in the phase's process set, if the phase has one
    takers: list  # the ranks that submit it; the other ranks have joined


@dataclasses.dataclass
class Phase:
    calls: list
    new_set: list = None  # the ranks of a process set that lives as long as the phase
    joins: bool = False


@dataclasses.dataclass
class Program:
    ranks: int
    each_host: int
    epochs: list  # [(knobs, phases)]


class ProgramMaker:
    """Makes the program as a function of the seed, so that it is the same on all ranks."""

    def __init__(self, seed, steady):
        self.draw = random.Random(f"python program {seed}")
        self.steady = steady
        self.calls = 0

    def make(self):
        draw = self.draw
        ranks = draw.choice([2, 2, 3, 3, 4, 5])
        each_host = draw.choice([0, 0, 0, 1, 2])
        epochs = [(self.knobs(), self.phases(ranks)) for _ in range(draw.choice([1, 1, 2]))]
        return Program(ranks, each_host, epochs)

    def knobs(self):
        knobs = {
            "CPU_OPERATIONS": self.draw.choice(["auto", "gloo", "tcp"]),
            "CACHE_CAPACITY": self.draw.choice(["1024", "0", "3"]),
        }
        return {name: value for name, value in knobs.items() if self.draw.random() < 0.5}

    def phases(self, ranks):
        phases = [self.phase(ranks) for _ in range(self.draw.randint(2, 5))]
        for _ in range(self.steady):  # as in a training loop, whose batches are learned
            phases.append(Phase([self.again(call, ranks) for call in phases[-1].calls if not call.in_set]))
        return phases

    def phase(self, ranks):
        draw = self.draw
        phase = Phase([])
        if draw.random() * 100 < CHANGE_PERCENT:
            phase.new_set = sorted(draw.sample(range(ranks), draw.randint(1, ranks)))
            if len(phase.new_set) == ranks:
                phase.new_set = phase.new_set[:-1]
        phase.calls = [self.call(ranks, phase.new_set) for _ in range(draw.randint(1, 12))]
        if draw.random() * 100 < JOIN_PERCENT:
            phase.joins = True
            left = set(range(ranks))
            for call in phase.calls:
                if call.in_set:
                    continue
                left -= {rank for rank in left if len(left) > 1 and draw.random() < 0.2}
                call.takers = sorted(left)
                if call.kind == "broadcast":  # the root must take part
                    call.kind = "allreduce"
        return phase

    def call(self, ranks, new_set):
        draw = self.draw
        self.calls += 1
        in_set = new_set is not None and draw.random() < 0.5
        rows = draw.choice([1, 3, 17, 400, 9000])
        return Call(
            self.calls,
            draw.choice(KINDS),
            f"tensor {draw.randrange(8)}{' of a set' if in_set else ''}",
            draw.choice(DTYPES),
            draw.choice(OPS),
            rows,
            in_set,
            list(new_set) if in_set else list(range(ranks)),
        )

    def again(self, call, ranks):
        self.calls += 1
        return dataclasses.replace(call, number=self.calls, takers=list(range(ranks)))


def points_of(program, rank):
    points = collections.Counter()
    for _, phases in program.epochs:
        points.update({"init": 1, "leave": 1, "step": len(phases)})
        points["change"] += 2 * sum(phase.new_set is not None for phase in phases)
        points["join"] += sum(phase.joins for phase in phases)
    return [f"{rank} {point} {points[point]}" for point in ("init", "step", "change", "join", "leave")]


class Faults:
    """The rank's journal, and the process that strikes the rank."""

    def __init__(self, rank):
        self.rank = rank
        self.has_lost = False
        self.times = collections.Counter()
        self.faults = [
            (number, line.split(" ")) for number, line in enumerate(os.environ["STORM_FAULTS"].splitlines())
        ]
        self.journal = os.open(
            os.environ["STORM_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self.note(f"begun {os.getpid()}")
        self.hand = None
        if any(int(words[0]) == rank for _, words in self.faults):
            self.hand = subprocess.Popen(
                [os.environ["STORM_WORKER"], "--hand", str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def note(self, text):
        os.write(self.journal, f"{time.monotonic_ns() // 1000} {self.rank} {text}\n".encode())

    def reached(self, point):
        nth = self.times[point]
        self.times[point] += 1
        for number, (rank, where, when, _, action, *_) in self.faults:
            if (int(rank), where, int(when)) == (self.rank, point, nth):
                os.write(self.hand.stdin.fileno(), bytes([number]))
                if action == "garbage":
                    os.read(self.hand.stdout.fileno(), 1)


class Rank:
    def __init__(self, seed):
        self.program = ProgramMaker(seed, int(os.environ.get("STORM_STEADY", "0"))).make()
        self.rank = int(os.environ["DABKE_RANK"])
        self.seed = seed
        self.faults = Faults(self.rank)
        self.moved = time.monotonic()
        self.doing = "start"
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        patience = float(os.environ.get("STORM_PATIENCE", "60"))
        never = threading.Event()  # libfaketime would spoil a sleep
        while time.monotonic() - self.moved < patience:
            never.wait(0.2)
        print(f"storm: seed {self.seed}, rank {self.rank}: HANG: {self.doing}", file=sys.stderr, flush=True)
        os._exit(3)

    def wrong(self, text):
        print(f"storm: seed {self.seed}, rank {self.rank}: {text}", file=sys.stderr, flush=True)
        os._exit(1)

    def must(self, what, function, *arguments, **named):
        """Calls the function and returns its result, or None if the job is over."""
        self.doing, self.moved = what, time.monotonic()
        try:
            return function(*arguments, **named)
        except dabke.DabkeError as error:
            text = re.sub(r"\s", " ", str(error))
            if isinstance(error, (dabke.HorovodInternalError, dabke.errors.OutOfMemoryError)):
                self.faults.has_lost = True
                self.faults.note(f"lost {type(error).__name__} {what}: {text}")
            elif not (
                self.faults.has_lost
                and isinstance(error, (dabke.errors.UnknownProcessSetError, dabke.errors.NotInitializedError))
            ):
                self.wrong(f"{what} ended with {type(error).__name__}: {text}")
            return None

    def input(self, call, rank):
        """An array of small whole numbers, so that every sum is exact."""
        return (
            ((np.arange(call.rows * 2) * 3 + call.number * 7 + rank * 5) % 13 - 6)
            .astype(call.dtype)
            .reshape(call.rows, 2)
        )

    def reduced(self, call):
        inputs = [self.input(call, rank) for rank in call.takers]
        if call.op == "Min":
            return np.minimum.reduce(inputs)
        if call.op == "Max":
            return np.maximum.reduce(inputs)
        total = np.sum(inputs, axis=0, dtype=call.dtype)
        if call.op == "Sum":
            return total
        return (
            np.trunc(total / len(inputs)) if call.dtype.startswith("int") else total / len(inputs)
        ).astype(call.dtype)

    def members(self, call, phase):
        return phase.new_set if call.in_set else list(range(self.program.ranks))

    def submit(self, call, phase, process_set):
        x, name = self.input(call, self.rank), call.name
        where = {"process_set": process_set} if call.in_set else {}
        if call.kind == "allreduce":
            return dabke.allreduce_async(x, name, getattr(dabke, call.op), **where)
        if call.kind == "grouped":
            return dabke.grouped_allreduce_async([x, x[:1]], name, getattr(dabke, call.op), **where)
        if call.kind == "allgather":
            return dabke.allgather_async(x[: 1 + self.rank % 2], name, **where)
        if call.kind == "broadcast":
            return dabke.broadcast_async(x, call.takers[0], name, **where)
        if call.kind == "reducescatter":
            return dabke.reducescatter_async(x, name, getattr(dabke, call.op), **where)
        ranks = self.members(call, phase)
        return dabke.alltoall_async(
            np.concatenate([self.input(call, self.rank)] * len(ranks)),
            [call.rows] * len(ranks),
            name,
            **where,
        )

    def check(self, call, phase, got):
        ranks = self.members(call, phase)
        if call.kind == "allreduce":
            want = self.reduced(call)
        elif call.kind == "grouped":
            if not np.allclose(got[1], self.reduced(call)[:1], rtol=1e-6, atol=0):
                self.wrong(f"{call}: the second of the group is {got[1]}")
            got, want = got[0], self.reduced(call)
        elif call.kind == "allgather":
            want = np.concatenate([self.input(call, rank)[: 1 + rank % 2] for rank in call.takers])
        elif call.kind == "broadcast":
            want = self.input(call, call.takers[0])
        elif call.kind == "reducescatter":
            want = np.array_split(self.reduced(call), len(ranks))[ranks.index(self.rank)]
        else:
            got, splits = got
            if splits != [call.rows if rank in call.takers else 0 for rank in ranks]:
                self.wrong(f"{call} received other splits: {splits}")
            want = np.concatenate([self.input(call, rank) for rank in call.takers])
        # An average of three may have a rounding error.
        if got.shape != want.shape or not np.allclose(
            got, want, rtol=1e-6 if call.op == "Average" else 0, atol=0
        ):
            self.wrong(f"{call}: wrong result: {got}, not {want}")

    def run_phase(self, phase):
        self.faults.reached("step")
        process_set = None
        if phase.new_set is not None:
            self.faults.reached("change")
            process_set = self.must("add_process_set", dabke.add_process_set, phase.new_set)
            if process_set is None:
                return
        pending = []
        for call in phase.calls:
            if self.rank in call.takers:
                handle = self.must(f"{call.kind} {call.name!r}", self.submit, call, phase, process_set)
                if handle is None:
                    break
                pending.append((call, handle))
        if phase.joins:
            self.faults.reached("join")
            self.must("join", dabke.join)
        for call, handle in pending:
            got = self.must(f"{call.kind} {call.name!r}", dabke.synchronize, handle)
            if got is not None:
                self.check(call, phase, got)
        if process_set is not None:
            self.faults.reached("change")
            self.must("remove_process_set", dabke.remove_process_set, process_set)

    def run(self):
        for knobs, phases in self.program.epochs:
            if self.faults.has_lost:
                break
            self.faults.note("init")
            self.faults.reached("init")
            self.must("dabke_init", dabke.init, settings=knobs)
            for phase in phases:
                if not self.faults.has_lost:
                    self.run_phase(phase)
            self.faults.reached("leave")
            if not self.faults.has_lost:  # rank 0 ends the job for all when it leaves
                self.must("barrier", dabke.barrier)
            self.must("shutdown", dabke.shutdown)
        self.run_again()
        self.faults.note("done")
        print(f"rank {self.rank} is done")

    def run_again(self):
        """The remaining ranks make another job."""
        dead = [int(word) for word in os.environ.get("STORM_DEAD", "").split(",") if word]
        left = [rank for rank in range(self.program.ranks) if rank not in dead]
        place = os.environ.get("STORM_AGAIN", "")
        if not place or self.rank not in left:
            return
        os.environ.update(
            DABKE_RENDEZVOUS=place,
            DABKE_RANK=str(left.index(self.rank)),
            DABKE_SIZE=str(len(left)),
            DABKE_START_TIMEOUT_SECONDS="30",
        )
        self.doing, self.moved = "the job after the one that failed", time.monotonic()
        try:
            dabke.init()
            total = dabke.allreduce(np.full(1000, left.index(self.rank), "int32"), "again", dabke.Sum)
            dabke.barrier()
            dabke.shutdown()
        except dabke.DabkeError as error:
            self.wrong(f"in the job after it: {error}")
        if not (total == len(left) * (len(left) - 1) // 2).all():
            self.wrong("a sum of the job after the one that failed is wrong")
        self.faults.note("again")


def main():
    what, seed = sys.argv[1:] if len(sys.argv) > 2 else ("", sys.argv[1])
    program = ProgramMaker(seed, int(os.environ.get("STORM_STEADY", "0"))).make()
    if what == "--show":
        print(f"seed {seed}: {program.ranks} ranks, dabkerun, {program.each_host} a host")
        for knobs, _ in program.epochs:
            print("epoch:", " ".join(f"DABKE_{name}={value}" for name, value in knobs.items()))
    elif what == "--points":
        print("\n".join(line for rank in range(program.ranks) for line in points_of(program, rank)))
    else:
        each = program.each_host
        if each:
            os.environ["DABKE_HOSTNAME"] = f"host-{int(os.environ['DABKE_RANK']) // each}"
        os.environ.setdefault("DABKE_DUMP_DIR", "none")
        os.environ.setdefault("DABKE_TIMELINE_FORMAT", "horovod")
        Rank(seed).run()


if __name__ == "__main__":
    if not sys.argv[1].startswith("--"):
        import dabke
        import numpy as np
    main()
