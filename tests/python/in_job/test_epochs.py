"""Epochs in a job that is not elastic. Elastic jobs have tests of their own, because ranks are lost there."""

import numpy
import pytest

import dabke


def test_a_job_that_is_not_elastic_has_one_epoch_of_new_ranks(job):
    assert not dabke.is_elastic()
    epoch = dabke.current_epoch()
    assert epoch.number >= 1
    assert (epoch.rank, epoch.size) == (job.rank, job.size)
    assert epoch.former_ranks == (-1,) * job.size
    assert epoch.newest_commit is None
    assert (epoch.holders, epoch.lost, epoch.left) == ((), (), None)
    with pytest.raises(AttributeError):
        epoch.rank = 3


def test_there_is_no_next_epoch_and_the_job_goes_on(job):
    for commit in (None, 7):
        with pytest.raises(dabke.errors.UnsupportedError, match="dabkerun --min-np"):
            dabke.next_epoch(commit)
    assert dabke.allreduce(numpy.ones(1), op=dabke.Sum)[0] == job.size


def test_a_commit_has_a_number():
    for commit in (-1, "7", 2**64, 1.5):
        with pytest.raises((TypeError, dabke.errors.InvalidArgumentError)):
            dabke.next_epoch(commit)


def test_no_changes_are_announced():
    dabke.barrier()
    assert dabke.announced_changes() == 0
