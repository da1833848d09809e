"""A call that only one rank refuses, before or in C, fails on all ranks. The next call of its name runs."""

import numpy as np
import pytest

import dabke


def record_field():
    return np.zeros(4, dtype=[("gradient", "f8"), ("count", "i4")])["gradient"]


def read_only():
    array = np.ones(4)
    array.flags.writeable = False
    return array


def summed(array, name):
    dabke.allreduce(array, op=dabke.Sum, name=name)


def summed_in_place(array, name):
    dabke.allreduce_(array, op=dabke.Sum, name=name)


CALLS = {
    "field": (summed_in_place, record_field),
    "read-only": (summed_in_place, read_only),
    "broadcast": (lambda array, name: dabke.broadcast_(array, 0, name=name), read_only),
    "masked": (summed, lambda: np.ma.masked_array([1.0] * 4, [0, 1, 0, 0])),
    "object": (
        lambda array, name: dabke.allgather(array, name=name),
        lambda: np.array([None] * 4, dtype=object),
    ),
    "splits": (
        lambda array, name: dabke.alltoall(array, None if len(array) == 4 * dabke.size() else [9], name=name),
        lambda: np.ones(3),
    ),
    "group": (
        lambda array, name: dabke.grouped_allreduce([np.ones(4), array], op=dabke.Sum, name=name),
        lambda: np.array([None] * 4, dtype=object),
    ),
}


@pytest.mark.skipif("dabke.size() == 1", reason="there is no other rank")
@pytest.mark.parametrize("which", CALLS)
def test_what_one_rank_refuses_fails_on_all(which):
    call, bad = CALLS[which]
    bad_rank = dabke.size() - 1

    def right():
        return np.ones(4 * (dabke.size() if which == "splits" else 1))

    for _ in range(2):
        with pytest.raises((dabke.errors.DabkeError, TypeError, ValueError)) as refused:
            call(bad() if dabke.rank() == bad_rank else right(), f"refused.{which}")
        if dabke.rank() != bad_rank:
            assert f"rank {bad_rank}" in str(refused.value) and "the job continues" in str(refused.value)
        call(right(), f"refused.{which}")
    dabke.barrier()
