"""The epochs of an elastic job, in which ranks come and go."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _core, process_sets as sets
from ._bootstrap.launcher_store import open_store
from ._frontend.names import forget_names
from .errors import InvalidArgumentError

__all__ = ["Epoch", "LostRank", "announced_changes", "current_epoch", "is_elastic", "next_epoch"]


_RUN_KEY = "python/elastic.run"  # in dabkerun's store, once a process has begun elastic.run

_hooks: list[Callable[[], object]] = []
_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # those with the work of an unfinished step
_changes = 0
_has_begun_run = False


def at_epoch_change(hook: Callable[[], object]) -> None:
    """Calls a function of a frontend at the end of each ``next_epoch``."""
    _hooks.append(hook)


def drop_at_epoch_change(optimizer: Any) -> None:
    """Calls ``optimizer._drop_in_flight()`` at the end of each ``next_epoch``, as long as the object lives.

    So no rank goes on with a step that it has begun with other ranks, whether or not the optimizer is in a
    state. New ranks begin with a whole step.
    """
    _optimizers.add(optimizer)


def drop_in_flight() -> None:
    """Drops the reductions, the sums and the counts of all steps that are not complete."""
    for optimizer in _optimizers:
        optimizer._drop_in_flight()


def epoch_changes() -> int:
    """Returns the number of changes of the epoch in this process. What belongs to one epoch compares it."""
    return _changes


def note_change() -> None:
    """Counts a change of the epoch, and calls the functions of the frontends. ``next_epoch`` calls it."""
    global _changes
    _changes += 1
    for hook in _hooks:
        hook()
    drop_in_flight()


def note_run() -> None:
    """Notes for all processes of the job, and for those that join later, that ranks use ``elastic.run``."""
    global _has_begun_run
    if _core.is_elastic() and not _has_begun_run:
        open_store().set(_RUN_KEY, b"1")
    _has_begun_run = True


def check_others_can_call(call: str) -> None:
    """Checks that the other ranks may make a call of all ranks, too.

    If they are in ``elastic.run``, a rank that has joined them later must first come to its own ``run``: they
    wait for it there.

    Args:
        call: the name of the call, for the error.

    Raises:
        InvalidArgumentError: this rank has joined later and has not called ``run`` yet.
    """
    if not _core.is_elastic() or _has_begun_run or not _core.is_initialized():
        return
    epoch = current_epoch()
    is_late = epoch.former_ranks[epoch.rank] < 0 and any(each >= 0 for each in epoch.former_ranks)
    if is_late and open_store().find(_RUN_KEY) is not None:
        raise InvalidArgumentError(
            f"{call}: rank {epoch.rank} has joined the job in epoch {epoch.number}, and the other ranks are "
            "in elastic.run and do not make this call; make it in the training function, or give process "
            "sets to init(process_sets=...), which makes them in each epoch"
        )


@dataclass(frozen=True)
class LostRank:
    """A rank that has been lost.

    Attributes:
        rank: its rank in the epoch before.
        host: its host.
        why: how it was lost, in one line, such as "killed by SIGKILL".
    """

    rank: int
    host: str
    why: str


@dataclass(frozen=True)
class Epoch:
    """The members of a job between two changes. Every rank of the epoch gets the same facts.

    Attributes:
        number: counts the epochs of the job from 1.
        rank: this process's rank; -1 if it has left the job.
        size: the number of ranks; 0 if this process has left the job.
        former_ranks: by rank, the rank in the epoch before; -1 for a new process.
        newest_commit: the greatest number of a commit that any rank has; None if no rank has one.
        holders: the ranks that have the newest commit. Every other rank lacks that state.
        lost: the ranks that have been lost since the epoch before.
        left: None; or why this process has left the job in good order. It is then in no job.
    """

    number: int
    rank: int
    size: int
    former_ranks: tuple[int, ...]
    newest_commit: int | None
    holders: tuple[int, ...]
    lost: tuple[LostRank, ...]
    left: str | None


def next_epoch(commit: int | None = None, repeated_steps: int = 0) -> Epoch:
    """Leaves this epoch, broken or not, and joins the next one. Every rank of the epoch calls it.

    Operations that are pending end with their error. Names of unnamed tensors are counted from 0 again. A
    process set goes on with its new ranks if all of its processes are in the next epoch. If not, collectives
    in it raise ``UnknownProcessSetError`` with the reason.

    Args:
        commit: the number of this process's newest commit; None if it has no state.
        repeated_steps: training steps after that commit, which this process takes again. dabkerun prints the
            greatest number of all ranks.

    Returns:
        the next epoch, once all its ranks have come.

    Raises:
        UnsupportedError: the job is not elastic.
        NotInitializedError: ``init`` was never called.
        AbortedError: the job went on without this process, which must end.
        TransportError: dabkerun is gone.
    """
    forget_names()
    epoch = _epoch_of(*_core.next_epoch(commit, repeated_steps))
    if epoch.left is None:
        sets.follow()
    else:
        sets.forget_all()
    note_change()
    return epoch


def current_epoch() -> Epoch:
    """Returns the current epoch, in any job. If the job is not elastic, all its ranks are new.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _epoch_of(*_core.current_epoch())


def announced_changes() -> int:
    """Returns how many changes of the job's hosts this rank has received in this epoch.

    If it is not 0, all ranks should call ``next_epoch`` at their next commit. The number comes with the
    results of collectives among all ranks. So ranks that have received the same results see the same number.
    """
    return _core.announced_changes()


def is_elastic() -> bool:
    """Returns True if dabkerun has started this process for an elastic job. Works before ``init``, too."""
    return _core.is_elastic()


def _epoch_of(
    number: int,
    rank: int,
    size: int,
    former_ranks: list[int],
    newest_commit: int | None,
    holders: list[int],
    lost: list[tuple[int, str, str]],
    left: str | None,
) -> Epoch:
    return Epoch(
        number,
        rank,
        size,
        tuple(former_ranks),
        newest_commit,
        tuple(holders),
        tuple(LostRank(*each) for each in lost),
        left,
    )
