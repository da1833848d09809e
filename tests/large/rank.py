"""A rank of run.py: runs tensors and objects of more than 2^31 bytes, and compares every byte."""

import os
import sys
import time

import numpy

import dabke

ELEMENTS = (1 << 31) + 4096
PERIOD = 65521  # a prime: data that is shifted by a power of two differs


def pattern(rank):
    return numpy.random.default_rng(rank + 1).integers(0, 256, PERIOD, dtype=numpy.uint8)


def filled(rank, elements=ELEMENTS):
    """Returns `pattern`, repeated."""
    return numpy.resize(pattern(rank), elements)


def hold(what, got, period):
    """Compares in pieces, because there is no room for a third tensor."""
    whole = len(got) // PERIOD * PERIOD
    for first in range(0, whole, PERIOD * 512):
        rows = got[first : min(first + PERIOD * 512, whole)].reshape(-1, PERIOD)
        if not (rows == period).all():
            row, column = numpy.argwhere(rows != period)[0]
            sys.exit(
                f"{what}: element {first + row * PERIOD + column} of {len(got)} is {rows[row, column]} "
                f"instead of {period[column]}"
            )
    if not (got[whole:] == period[: len(got) - whole]).all():
        sys.exit(f"{what}: one of the last {len(got) - whole} elements of {len(got)} is wrong")


def main():
    dabke.init()
    rank, size = dabke.rank(), dabke.size()
    begin = time.monotonic()

    def seen(what):
        nonlocal begin
        if rank == 0:
            print(f"  {what}: {time.monotonic() - begin:.1f} s", flush=True)
        dabke.barrier()
        begin = time.monotonic()

    data = filled(rank)
    dabke.allreduce_(data, name="allreduce", op=dabke.Max)
    hold("allreduce", data, numpy.max([pattern(each) for each in range(size)], axis=0))
    seen("allreduce of 2^31 + 4096 uint8")

    data = filled(rank)
    dabke.broadcast_(data, root_rank=size - 1, name="broadcast")
    hold("broadcast", data, pattern(size - 1))
    seen("broadcast of 2^31 + 4096 uint8")

    # one part is large, so all parts behind it begin beyond 31 bits
    few = [ELEMENTS, *([70001] * (size - 1))]
    got = dabke.allgather(filled(rank, few[rank]), name="allgather")
    for each in range(size):
        hold(f"allgather, part of rank {each}", got[sum(few[:each]) : sum(few[: each + 1])], pattern(each))
    del got
    seen("allgather of 2^31 + 4096 uint8 and some")

    rows = dabke.reducescatter(filled(rank), name="reducescatter", op=dabke.Max)
    first = sum(ELEMENTS // size + (each < ELEMENTS % size) for each in range(rank))
    hold(
        "reducescatter",
        rows,
        numpy.roll(numpy.max([pattern(each) for each in range(size)], axis=0), -(first % PERIOD)),
    )
    del rows, data
    seen("reducescatter of 2^31 + 4096 uint8")

    # All data goes to the last rank.
    splits = [0] * (size - 1) + [few[rank]]
    got = dabke.alltoall(filled(rank, few[rank]), splits=splits, name="alltoall")
    got = got[0] if isinstance(got, tuple) else got
    if rank == size - 1:
        for each in range(size):
            hold(f"alltoall, part of rank {each}", got[sum(few[:each]) : sum(few[: each + 1])], pattern(each))
    elif len(got) != 0:
        sys.exit(f"alltoall: {len(got)} elements instead of none")
    del got
    seen("alltoall of 2^31 + 4096 uint8 and some")

    import dabke.torch as objects  # imported last, because it takes memory

    text = bytes(filled(0)) if rank == 0 else None
    got = objects.broadcast_object(text, root_rank=0, name="object")
    hold("broadcast_object", numpy.frombuffer(got, dtype=numpy.uint8), pattern(0))
    del text, got
    seen("broadcast_object of 2^31 + 4096 bytes")

    got = objects.allgather_object(bytes(filled(rank, few[rank])), name="objects")
    for each, one in enumerate(got):
        hold(f"allgather_object, of rank {each}", numpy.frombuffer(one, dtype=numpy.uint8), pattern(each))
    seen("allgather_object of 2^31 + 4096 bytes and some")
    dabke.shutdown()


if __name__ == "__main__":
    main()
