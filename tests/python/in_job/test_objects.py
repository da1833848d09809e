"""Python objects between the ranks, without any framework."""

import numpy
import pytest

import dabke


class Unpicklable:
    def __reduce__(self):
        raise TypeError("not this one")


def raise_once_unpickled(rank):
    if dabke.rank() == rank:
        raise OSError("not here")
    return "whole"


class Spoilt:
    """An object that cannot be unpickled on one rank."""

    def __init__(self, rank):
        self.rank = rank

    def __reduce__(self):
        return raise_once_unpickled, (self.rank,)


@pytest.mark.parametrize("name", [None, "settings"])
def test_all_ranks_get_the_object_of_the_root(job, name):
    mine = {"rank": job.rank, "weights": numpy.arange(job.rank + 3)}
    got = dabke.broadcast_object(mine, root_rank=job.size - 1, name=name)
    assert got["rank"] == job.size - 1 and got["weights"].tolist() == list(range(job.size + 2))
    assert (got is mine) == (job.rank == job.size - 1)


@pytest.mark.parametrize("name", [None, "states"])
def test_all_ranks_get_the_objects_of_all_in_their_order(job, name):
    mine = ["x" * job.rank, job.rank]
    assert dabke.allgather_object(mine, name=name) == [["x" * rank, rank] for rank in range(job.size)]


def test_an_object_stays_within_its_process_set(job):
    last = dabke.add_process_set([job.size - 1])
    if last.included():
        assert dabke.broadcast_object("mine", job.size - 1, process_set=last) == "mine"
        assert dabke.allgather_object(job.rank, process_set=last) == [job.rank]
    dabke.remove_process_set(last)


def test_what_one_rank_cannot_pickle_is_an_error_of_all(job):
    for call in (lambda mine: dabke.broadcast_object(mine, 1), dabke.allgather_object):
        with pytest.raises(
            dabke.errors.InvalidArgumentError,
            match="rank 1 cannot pickle its object: TypeError: not this one",
        ):
            call(Unpicklable() if job.rank == 1 else "good")
    assert dabke.allgather_object(job.rank) == list(range(job.size))


def test_what_one_rank_cannot_unpickle_is_an_error_of_all(job):
    with pytest.raises(
        dabke.errors.InvalidArgumentError,
        match="rank 1 cannot unpickle the object of rank 0: OSError: not here",
    ):
        dabke.broadcast_object(Spoilt(1))
    assert dabke.broadcast_object(job.rank) == 0


def test_an_object_is_larger_than_any_buffer(job):
    sent = bytes(3_000_001)
    assert dabke.broadcast_object(sent if job.rank == 0 else None) == sent
