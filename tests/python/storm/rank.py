"""A rank of the storm: runs its seeds one after the other.

Its environment, which `run` sets:

    STORM_SEEDS     the seeds, with commas
    STORM_BACKEND   dabke or gloo
    STORM_FOLDER    an empty folder of the job, for files that ranks share
    STORM_LIMIT     seconds for one seed
    STORM_WITHOUT   numbers of steps that are left out
    STORM_MISTAKE   a mistake of the last member of a group (mistakes.py)

Prints "storm: begins SEED" and "storm: done SEED" for each seed, and "storm: failed SEED: why" for a result
that differs. An exception or a hang ends the process, so that the job ends.
"""

import faulthandler
import inspect
import os
import random
import sys
import threading
import time
import traceback
from datetime import timedelta

import memory
import numpy as np
import program as programs
import torch
import torch.distributed as dist
from calls import TAKE_CONJUGATES, Call, has_futures, lacks
from mistakes import Mistake
from oracle import Oracle

BACKEND = os.environ["STORM_BACKEND"]
RANK, SIZE = int(os.environ["DABKE_RANK"]), int(os.environ["DABKE_SIZE"])
LIMIT = float(os.environ["STORM_LIMIT"])
WITHOUT = {int(each) for each in os.environ.get("STORM_WITHOUT", "").split(",") if each}
if BACKEND == "dabke":
    import dabke.distributed  # noqa: F401


def say(text):
    os.write(1, f"storm: {text}\n".encode())


class Watchdog:
    """Ends the process when a seed takes too long, and prints the step of each lane."""

    def __init__(self):
        self.seed, self.steps, self.deadline = None, {}, float("inf")
        threading.Thread(target=self.watch, daemon=True).start()

    def begin(self, seed):
        self.seed, self.steps = seed, {}
        self.deadline = time.monotonic() + LIMIT
        # For a hang that holds the lock of the interpreter.
        faulthandler.dump_traceback_later(LIMIT + 5, exit=True)

    def end(self):
        self.deadline = float("inf")
        faulthandler.cancel_dump_traceback_later()

    def watch(self):
        while time.monotonic() < self.deadline:
            time.sleep(0.2)
        for lane, text in sorted(self.steps.items()):
            say(f"failed {self.seed}: rank {RANK} hangs in lane {lane}: {text}")
        if not self.steps:
            say(f"failed {self.seed}: rank {RANK} hangs outside its steps")
        faulthandler.dump_traceback()
        time.sleep(2)  # the end of this rank ends the others, which report their steps first
        os._exit(3)


class Pending:
    """A call that has been made, with what its memory must be afterwards."""

    def __init__(self, step, call, works, memories, case, how):
        self.step, self.call, self.works, self.memories, self.case = (
            step,
            call,
            works,
            memories,
            case,
        )
        self.how = how
        self.seen = None  # copies of the memory, made by a callback of the future
        self.futures = [work.get_future().then(self.see) for work in works or []] if how == "then" else []

    def see(self, future):
        self.seen = [each.rows.copy() for each in self.memories]
        return len(future.value() or [])

    def wait(self, random):
        random.shuffle(self.works or [])
        for work in self.works or []:
            if self.how == "future":
                work.get_future().wait()
            elif self.how == "completed":
                while not work.is_completed():
                    time.sleep(0.0005)
            if self.how == "limit":
                work.wait(timedelta(seconds=LIMIT))
            elif self.how != "future":
                work.wait()
        for each in self.futures:
            each.wait()

    def unfinished(self):
        """Returns texts if a work does not count as completed after a wait."""
        if BACKEND == "gloo":
            return []  # its works may count as pending after a wait
        states = [work for work in self.works or [] if hasattr(work, "is_completed")]
        return ["is_completed() is False after a wait" for work in states if not work.is_completed()]

    def differences(self):
        found = []
        for number, each in enumerate(self.memories):
            found += [f"memory {number}: {text}" for text in each.differences()]
            if self.seen is not None and len(self.futures) == 1:
                found += [f"memory {number} in a callback: {x}" for x in each.differences(self.seen[number])]
        for tensor, (shape, wanted) in zip(self.call.returned, self.case.returned):
            found += self.of_returned(tensor, shape, wanted)
        for got, wanted in self.call.objects:
            if got != wanted:
                found.append(f"got {str(got)[:500]}, expected {str(wanted)[:500]}")
        return found

    def of_returned(self, tensor, shape, wanted):
        tensor = tensor.wait() if hasattr(tensor, "wait") else tensor
        if tuple(tensor.shape) != tuple(shape):
            return [f"the returned tensor has shape {tuple(tensor.shape)}, expected {shape}"]
        flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
        rows = flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
        rows = rows.reshape(flat.numel(), flat.element_size())
        if isinstance(wanted, memory.Near):
            return memory.differing("the returned tensor", wanted, memory.decode(self.step.dtype, rows))
        return [] if (rows == wanted).all() else [f"the returned tensor: got {rows}, expected {wanted}"]


class Lane:
    """Runs the steps of one lane. Pending calls are waited for in an order of this rank's own."""

    def __init__(self, runner, number, steps):
        self.runner, self.number, self.steps = runner, number, steps
        self.random = random.Random(f"waits {runner.seed} {number} {steps[0].number if steps else 0} {RANK}")
        self.pending, self.failures, self.error = [], [], None

    def run(self):
        try:
            for step in self.steps:
                if RANK in step.members and not lacks(BACKEND, step):
                    self.before(step)
                    self.begin(step)
            while self.pending:
                self.end(self.random.randrange(len(self.pending)))
        except BaseException as error:
            self.error = error

    def before(self, step):
        while self.pending and self.random.random() < 0.3:
            self.end(self.random.randrange(len(self.pending)))

    def begin(self, step):
        runner = self.runner
        runner.watchdog.steps[self.number] = step.text()
        me = step.members.index(RANK)
        case = runner.oracle.case(step, me)
        layouts = np.random.default_rng([runner.seed, step.number, RANK, 7])
        memories, tensors = placed(layouts, step, case)
        mistake = Mistake(step, RANK)
        if mistake.skips():
            return
        call = Call(step, runner.groups[step.group], me, tensors, runner.oracle, runner.seed)
        works = call.make()
        has_future = has_futures(BACKEND, step) and all(hasattr(work, "get_future") for work in works or [])
        if self.forgets(works):
            return
        ways = ["wait", "limit", "completed", "future", "then"] if has_future else ["wait"]
        pending = Pending(step, call, works, memories, case, self.random.choice(ways))
        pending.mistake = mistake
        if step.kind == "sparse_all_reduce":
            self.expect_sparse(pending)
        self.pending.append(pending)
        if not works:
            self.end(len(self.pending) - 1)

    def forgets(self, works):
        """Returns True for some calls. Nothing keeps their works and tensors, and nobody waits for them."""
        return bool(works) and BACKEND == "dabke" and self.random.random() < 0.05

    def expect_sparse(self, pending):
        """A sparse tensor becomes the sum in its place, so its dense form is compared."""
        sparse, near = (
            pending.call.returned[0],
            self.runner.oracle.sparse_sum(pending.step),
        )
        pending.call.returned = [Dense(sparse)]
        pending.case.returned = [(pending.step.shape, near)]

    def end(self, index):
        pending = self.pending.pop(index)
        self.runner.watchdog.steps[self.number] = f"waits by {pending.how} for {pending.step.text()}"
        pending.wait(self.random)
        pending.mistake.plant(pending.memories)
        for text in [*pending.differences(), *pending.unfinished()]:
            self.failures.append(f"{pending.step.text()}; waited by {pending.how}: {text}")


class Dense:
    def __init__(self, sparse):
        self.sparse = sparse

    def wait(self):
        return self.sparse.to_dense()


def placed(layouts, step, case):
    """Returns the memories of a Case, and the tensors of each role."""
    memories, tensors = [], {}
    slots = [slot for each in case.slots.values() for slot in each]
    found = {}
    # The inputs and outputs of one call can share memory only if they are the same tensors.
    for role, own in case.slots.items():
        parts = [each for each in slots if each.part_of is not None and each.part_of[0] in own]
        own = [each for each in own if each.part_of is None]
        for each in memory.place(layouts, step.dtype, own + parts, forms_of(step)):
            each.text_of_role = role
            memories.append(each)
            found.update({id(slot): tensor for slot, tensor in zip(each.slots, each.tensors)})
    for role, own in case.slots.items():
        tensors[role] = [found[id(slot)] for slot in own]
    return memories, tensors


def forms_of(step):
    """The forms of tensors that can be passed, besides compact ones."""
    if BACKEND == "gloo":
        return ()
    forms = ("strided", "neg", "conj") if step.kind in TAKE_CONJUGATES else ("strided", "neg")
    return forms if step.kind.startswith("functional") else (*forms, "leaf")


class Runner:
    def __init__(self, watchdog):
        self.watchdog, self.worlds = watchdog, 0

    def start(self):
        self.worlds += 1
        if BACKEND == "gloo":
            file = os.path.join(os.environ["STORM_FOLDER"], f"store{self.worlds}")
            dist.init_process_group("gloo", init_method=f"file://{file}", rank=RANK, world_size=SIZE)
        else:
            dist.init_process_group("dabke")

    def run(self, seed):
        """Returns the failures."""
        self.seed = seed
        self.oracle = Oracle(seed, BACKEND)
        program = programs.make(seed, WITHOUT)
        self.watchdog.begin(seed)
        if program.has_fresh_world and dist.is_initialized():
            dist.destroy_process_group()
        if not dist.is_initialized():
            self.start()
        self.groups, failures = {0: dist.group.WORLD}, []
        for phase in program.phases:
            failures += self.phase(phase)
        for number in sorted(set(self.groups) - {0}):
            self.destroy(number)
        self.watchdog.end()
        return failures

    def phase(self, phase):
        for plan in phase.groups:
            self.make_group(plan)
        lanes = [Lane(self, number, steps) for number, steps in enumerate(phase.lanes)]
        threads = [threading.Thread(target=lane.run) for lane in lanes[1:]]
        for each in threads:
            each.start()
        lanes[0].run()
        self.raise_first(lanes[:1])
        for each in threads:
            each.join()
        self.raise_first(lanes)
        for number in phase.destroyed:
            self.destroy(number)
        return [text for lane in lanes for text in lane.failures]

    def raise_first(self, lanes):
        for lane in lanes:
            if lane.error is not None:
                step = self.watchdog.steps.get(lane.number)
                raise RuntimeError(step) from lane.error

    def make_group(self, plan):
        # Gloo would find the addresses of an earlier group of that name.
        is_local = plan.is_local and BACKEND != "gloo"
        if is_local and RANK not in plan.members:
            return
        more = {} if plan.sorts or not TAKES_ORDER else {"sort_ranks": False}
        if plan.is_mixed and BACKEND == "dabke":
            more["backend"] = "cpu:dabke,cuda:gloo"
        if is_local:
            more["use_local_synchronization"] = True
        group = dist.new_group(plan.members, **more)
        if RANK in plan.members:
            self.groups[plan.number] = group
            found = dist.get_process_group_ranks(group)
            if found != plan.members or dist.get_rank(group) != plan.members.index(RANK):
                raise AssertionError(f"{plan.text()} has the members {found}")

    def destroy(self, number):
        group = self.groups.pop(number, None)
        if group is not None:
            dist.destroy_process_group(group)


TAKES_ORDER = "sort_ranks" in inspect.signature(dist.new_group).parameters


def main():
    torch.set_num_threads(1)
    watchdog = Watchdog()
    runner = Runner(watchdog)
    for seed in map(int, os.environ["STORM_SEEDS"].split(",")):
        say(f"begins {seed}")
        try:
            failures = runner.run(seed)
        except BaseException as error:
            cause = error.__cause__ or error
            where = f" {error}:" if cause is not error else ""
            text = " ".join(f"{type(cause).__name__}: {cause}".split())
            say(f"failed {seed}: rank {RANK}:{where} {text}")
            traceback.print_exception(cause)
            sys.stderr.flush()
            os._exit(2)
        for each in failures[:5]:
            say(f"failed {seed}: rank {RANK}: {each}")
        say(f"done {seed}")
    watchdog.begin("the end")
    dist.destroy_process_group()
    watchdog.end()
    sys.stdout.flush()
    say("done the end")


if __name__ == "__main__":
    main()
