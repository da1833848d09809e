#!/usr/bin/env python3
"""Measures each call of torch.distributed over Dabke, beside the same call over Gloo.

    dabkerun -np 2 python benchmarks/python/c10d_calls.py [--sizes 8 1024 65536 1048576 67108864]
                                                          [--calls all_reduce send ...] [--rounds 15]

Both groups are in the same processes, and run in turns. A size is that of one rank's input in bytes; for
calls that gather, of one part. "us" is the median time of a call, "/ Gloo" the median of the ratios of single
rounds.

submit   the time until a call with async_op=True has returned, at 1 KB
send     the time from a send to the receiver's end of recv: half of there and back. At the largest size it is
         also compared with process_vm_readv of the same bytes from the other process.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time
import warnings

import torch
import torch.distributed as dist
from turns import measure, ratio

import dabke
import dabke.distributed  # noqa: F401

SIZES = [8, 1 << 10, 64 << 10, 1 << 20, 64 << 20]
SECONDS_OF_A_TURN = 0.05


def floats(size):
    return torch.ones(max(1, size // 4))


def calls_of(size, ranks):
    """The calls, by name: each takes a group."""
    one, out = floats(size), floats(size)
    parts = [floats(size) for _ in range(ranks)]
    whole = torch.ones(one.numel() * ranks)
    across = torch.ones(max(1, one.numel() // ranks) * ranks)
    across_out = torch.empty_like(across)
    ins, outs = list(across.chunk(ranks)), list(across_out.chunk(ranks))
    is_root = dist.get_rank() == 0
    return {
        "all_reduce": lambda group: dist.all_reduce(one, group=group),
        "broadcast": lambda group: dist.broadcast(one, 0, group=group),
        "reduce": lambda group: dist.reduce(one, 0, group=group),
        "all_gather": lambda group: dist.all_gather(parts, one, group=group),
        "all_gather_into_tensor": lambda group: dist.all_gather_into_tensor(whole, one, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter(out, parts, group=group),
        "reduce_scatter_tensor": lambda group: dist.reduce_scatter_tensor(out, whole, group=group),
        "all_to_all_single": lambda group: dist.all_to_all_single(across_out, across, group=group),
        "all_to_all": lambda group: dist.all_to_all(outs, ins, group=group),
        "gather": lambda group: dist.gather(one, parts if is_root else None, 0, group=group),
        "scatter": lambda group: dist.scatter(out, parts if is_root else None, 0, group=group),
        "barrier": lambda group: dist.barrier(group=group),
        "send": lambda group: there_and_back(one, group),
    }


def there_and_back(tensor, group):
    rank = dist.get_rank()
    if rank == 0:
        dist.send(tensor, 1, group=group)
        dist.recv(tensor, 1, group=group)
    elif rank == 1:
        dist.recv(tensor, 0, group=group)
        dist.send(tensor, 0, group=group)


def compare(call, groups, rounds):
    """The figures of both groups, with so many calls in a turn that the turns are of about equal length."""
    slowest = torch.zeros(1)
    for group in groups.values():
        seconds = []
        for _ in range(5):  # the first ones connect ranks
            dist.barrier(group=groups["dabke"])
            begin = time.perf_counter()
            call(group)
            seconds.append(time.perf_counter() - begin)
        slowest[0] = max(slowest[0], min(seconds))
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group=groups["dabke"])
    calls = int(max(1, min(1000, SECONDS_OF_A_TURN / slowest[0])))
    return measure({name: lambda group=group: call(group) for name, group in groups.items()}, rounds, calls)


def submit_times(groups, rounds):
    """The seconds until all_reduce(async_op=True) returns, at 1 KB, without the waits."""
    tensor, calls = floats(1024), 50
    seconds = {name: [] for name in groups}
    for _ in range(rounds):
        for name, group in groups.items():
            dabke.barrier()
            taken = 0.0
            for _ in range(calls):
                begin = time.perf_counter()
                work = dist.all_reduce(tensor, group=group, async_op=True)
                taken += time.perf_counter() - begin
                work.wait()
            seconds[name].append(taken / calls)
    return seconds


class Piece(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_seconds(size, rounds):
    """The seconds that rank 1 needs to read so many bytes from rank 0, in calls of 1 MiB; on rank 1 alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    tensor = floats(size)
    places = [None] * dist.get_world_size()
    dist.all_gather_object(places, (os.getpid(), tensor.data_ptr()))
    seconds = []
    for _ in range(rounds):
        dist.barrier()
        if dist.get_rank() != 1:
            continue
        begin = time.perf_counter()
        for done in range(0, size, 1 << 20):
            length = min(1 << 20, size - done)
            here, there = Piece(tensor.data_ptr() + done, length), Piece(places[0][1] + done, length)
            got = libc.process_vm_readv(places[0][0], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
            if got != length:
                raise OSError(ctypes.get_errno(), "process_vm_readv is not allowed here")
        seconds.append(time.perf_counter() - begin)
    dist.barrier()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--calls", nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # of names that PyTorch has replaced
    torch.set_num_threads(1)
    dist.init_process_group("dabke")
    groups = {"dabke": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    ranks = dist.get_world_size()
    is_first = dist.get_rank() == 0

    def show(call, size, ours, theirs, factor=1.0):
        if is_first:
            print(
                f"{call:<24}{size:>10}{1e6 * factor * statistics.median(ours):>12.1f}"
                f"{ratio(ours, theirs):>9.2f}",
                flush=True,
            )

    if is_first:
        print(f"{ranks} ranks\n{'call':<24}{'bytes':>10}{'us':>12}{'/ Gloo':>9}")
    for size in options.sizes:
        for name, call in calls_of(size, ranks).items():
            if options.calls and name not in options.calls:
                continue
            seen = compare(call, groups, options.rounds)
            show(name, size, seen["dabke"].seconds, seen["gloo"].seconds, 0.5 if name == "send" else 1.0)
            if name == "send" and size == max(options.sizes) and ranks > 1:
                read = read_seconds(size, options.rounds)
                if dist.get_rank() == 1:
                    one_way = statistics.median(seen["dabke"].seconds) / 2
                    print(f"send / process_vm_readv, {size} bytes: {one_way / statistics.median(read):.2f}")
    if not options.calls or "submit" in options.calls:
        submitted = submit_times(groups, options.rounds)
        show("submit", 1024, submitted["dabke"], submitted["gloo"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
