"""Groups and their process sets, made from torch.distributed's store, number and size.

1. The members exchange through the store whether they are in a job, and their ranks in it.
2. The job of the group depends on that:
   - If no member is in a job, the members start one, over the same store.
   - If all members are in the job, they stay in it. A world group must then have the ranks of the job.
   - If some members are in a job when a world group is made, an earlier world group has left that job behind.
     They leave it, and all members start a new job.
3. The group of all the job's ranks is the world, set 0. Any other group is a set that the members add.

In an elastic job, the world group is always that of the job. Nothing is exchanged for it.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist

from ... import _core, epochs, errors, job
from ..._bootstrap.store_rendezvous import StoreRendezvous
from . import job_owner
from .group import Group
from .other_backends import MixedGroup, others_of_string
from .sets import set_of

__all__ = ["make_group"]


class _JobRank(NamedTuple):
    """A member's rank in its job. A size of 0 means that it is not in a job."""

    rank: int
    size: int


def make_group(store: Any, rank: int, size: int, timeout: timedelta) -> Group:
    """Makes a group. torch.distributed calls it in ``init_process_group`` and ``new_group``."""
    is_world = not dist.is_initialized()
    if is_world and epochs.is_elastic():
        return _elastic_world(store, rank, size, timeout)
    members = _gather_ranks(store, rank, size, timeout)
    in_job = [each for each in members if each.size > 0]
    if len(in_job) == size:
        ranks = [each.rank for each in members]
        if is_world and members != [_JobRank(number, size) for number in range(size)]:
            raise _other_world(rank, size, members[rank])
    elif not in_job or is_world:
        if job.is_initialized():
            job.shutdown()
        job_owner.start(store, rank=rank, size=size)
        ranks = list(range(size))
    else:
        missing = [number for number, each in enumerate(members) if each.size == 0]
        raise errors.InvalidArgumentError(
            f"a group of backend dabke: its members {missing} belong to no job, but others do; "
            'make all such groups among ranks of one job, best by init_process_group("dabke")'
        )
    return _new_group(rank, size, timeout, store, set_of(ranks), ranks, is_world)


def _new_group(*arguments: Any) -> Group:
    others = others_of_string()
    return MixedGroup(others, arguments[2], *arguments) if others else Group(*arguments)


def _gather_ranks(store: Any, rank: int, size: int, timeout: timedelta) -> list[_JobRank]:
    """Returns the rank of each member in the running job."""
    mine = _JobRank(job.rank(), job.size()) if job.is_initialized() else _JobRank(-1, 0)
    rendezvous = StoreRendezvous(store, rank, size, timeout.total_seconds())
    return [_JobRank(*json.loads(each)) for each in rendezvous.gather("ranks", json.dumps(mine).encode())]


def _elastic_world(store: Any, rank: int, size: int, timeout: timedelta) -> Group:
    if not job.is_initialized():
        job_owner.start()
    mine = _JobRank(job.rank(), job.size())
    if mine != (rank, size):
        raise _other_world(rank, size, mine)
    return _new_group(rank, size, timeout, store, _core.WORLD, list(range(size)), True)


def _other_world(rank: int, size: int, mine: _JobRank) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"init_process_group: this is rank {rank} of {size}, but in the running job it is rank {mine.rank} "
        f"of {mine.size}; give it the same ranks, or do not call dabke.init"
    )
