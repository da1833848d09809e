"""Process sets in the Python API."""

import numpy
import pytest

import dabke


@pytest.fixture
def evens_and_odds(job):
    sets = [dabke.add_process_set(dabke.ProcessSet(range(parity, job.size, 2))) for parity in (0, 1)]
    yield sets
    for each in sets:
        assert dabke.remove_process_set(each)


def test_a_collective_runs_among_a_sets_ranks(job, evens_and_odds):
    mine = evens_and_odds[job.rank % 2]
    assert mine.included()
    assert mine.rank() == job.rank // 2
    assert mine.size() == len(mine.ranks)
    result = dabke.allreduce(numpy.full(3, float(job.rank)), op=dabke.Sum, process_set=mine)
    assert result.tolist() == [float(sum(mine.ranks))] * 3
    assert dabke.allgather(numpy.array([job.rank]), process_set=mine).tolist() == mine.ranks
    root = mine.ranks[-1]
    assert dabke.broadcast(numpy.array([job.rank]), root, process_set=mine).tolist() == [root]
    dabke.barrier(process_set=mine)


def test_a_rank_outside_a_set_is_refused(job, evens_and_odds):
    other = evens_and_odds[1 - job.rank % 2]
    assert not other.included()
    assert other.rank() == -1
    with pytest.raises(dabke.DabkeError):
        dabke.allreduce(numpy.ones(1), process_set=other)


def test_unnamed_tensors_of_a_set_do_not_disturb_the_worlds(job, evens_and_odds):
    if job.rank % 2 == 0:
        dabke.allreduce(numpy.ones(1), process_set=evens_and_odds[0])
    assert dabke.allreduce(numpy.ones(1), op=dabke.Sum)[0] == job.size


def test_the_world_is_set_zero(job):
    world = dabke.global_process_set
    assert world.process_set_id == 0
    assert world.ranks == list(range(job.size))
    assert (world.size(), world.rank(), world.included()) == (job.size, job.rank, True)
    assert dabke.get_process_set_ids_and_ranks()[0] == world.ranks
    assert not dabke.remove_process_set(world)


def test_a_set_that_has_not_been_added_is_refused():
    with pytest.raises(ValueError, match="has not been added"):
        dabke.allreduce(numpy.ones(1), process_set=dabke.ProcessSet([0]))
    with pytest.raises(ValueError, match="has not been added"):
        dabke.ProcessSet([0]).size()


def test_a_removed_set_is_refused(job):
    first = dabke.add_process_set([0])
    number = first.process_set_id
    assert dabke.remove_process_set(first)
    assert first.process_set_id is None
    assert not dabke.remove_process_set(first)
    with pytest.raises(dabke.errors.UnknownProcessSetError):
        dabke.allreduce(numpy.ones(1), process_set=number)


def test_members_alone_add_a_set(job):
    if job.rank < 2:
        pair = dabke.add_process_set([0, 1], among_members=True)
        assert dabke.allreduce(numpy.ones(1), op=dabke.Sum, process_set=pair)[0] == 2
        assert dabke.remove_process_set(pair, among_members=True)
    else:
        with pytest.raises(dabke.errors.InvalidArgumentError):
            dabke.add_process_set([0, 1], among_members=True)


def test_a_set_of_no_such_rank_is_refused(job):
    with pytest.raises(ValueError):
        dabke.add_process_set([0, job.size])
