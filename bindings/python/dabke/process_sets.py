"""Process sets: subsets of the ranks, among which a collective can run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _core
from .errors import InvalidArgumentError

__all__ = [
    "ProcessSet",
    "add_process_set",
    "get_process_set_ids_and_ranks",
    "global_process_set",
    "remove_process_set",
]


class ProcessSet:
    """A subset of the ranks. Collectives can use it after ``init`` or ``add_process_set`` has added it.

    Attributes:
        process_set_id: the runtime's number of the set; None while it is not added. The world's number is 0.
        ranks: world ranks, ascending.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        if hasattr(ranks_or_comm, "Get_group"):
            ranks_or_comm = _world_ranks_of(ranks_or_comm)
        self.process_set_id: int | None = None
        self._ranks = sorted(int(rank) for rank in ranks_or_comm)

    @property
    def ranks(self) -> list[int]:
        return list(self._ranks)

    def size(self) -> int:
        """Returns the number of ranks in the set."""
        return _core.process_set_size(self._id())

    def rank(self) -> int:
        """Returns this rank's index within the set; -1 if it is not a member."""
        return _core.process_set_rank(self._id())

    def included(self) -> bool:
        """Returns True if this rank is in the set."""
        return _core.process_set_included(self._id())

    def follow(self, ranks_by_id: Mapping[int, list[int]]) -> None:
        """Takes the ranks that the runtime has for this set, if it has the set."""
        if self.process_set_id is not None:
            self._ranks = ranks_by_id.get(self.process_set_id, self._ranks)

    def _id(self) -> int:
        if self.process_set_id is None:
            raise InvalidArgumentError(f"{self} has not been added; call dabke.add_process_set first")
        return self.process_set_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and (self.process_set_id, self.ranks) == (
            other.process_set_id,
            other.ranks,
        )

    def __hash__(self) -> int:
        return hash(tuple(self._ranks))

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self._ranks})"


class _World(ProcessSet):
    """The set of all ranks. Its id is always 0. It has ranks once the job runs."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = _core.WORLD

    @property
    def ranks(self) -> list[int]:
        return _core.process_set_ranks(_core.WORLD) if _core.is_initialized() else []

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set: ProcessSet = _World()
_added: list[ProcessSet] = []


def set_id_of(process_set: ProcessSet | int) -> int:
    """Returns the runtime's number of a set, which is given as an object or as that number."""
    if isinstance(process_set, int):
        return process_set
    return process_set._id()


def add_process_set(process_set: ProcessSet | Sequence[int], *, among_members: bool = False) -> ProcessSet:
    """Adds a set, and returns when the other ranks have added it, too.

    Args:
        process_set: a ``ProcessSet`` that is not added, or a list of world ranks.
        among_members: False: every rank of the job calls, for the same sets in the same order. True: only the
            set's own ranks call; a set that exists already is then shared.

    Returns:
        the set, with its number.

    Raises:
        InvalidArgumentError: a rank does not exist or is given twice, the set exists already, or the caller
            is not a member. In an elastic job: the caller has joined later, and is not in ``elastic.run``.
        MismatchError: the ranks name different sets.
    """
    _check_others_can_call("add_process_set")
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    if added.process_set_id is not None:
        raise InvalidArgumentError(f"{added} has been added already")
    if among_members:
        handle = _core.add_process_set_among_members(added.ranks)
        handle.wait()
        added.process_set_id = handle.process_set_id()
    else:
        added.process_set_id = _core.add_process_set(added.ranks)
    _added.append(added)
    return added


def remove_process_set(process_set: ProcessSet, *, among_members: bool = False) -> bool:
    """Removes a set, and returns when the other ranks have removed it, too.

    Args:
        process_set: a set that was added.
        among_members: the ranks that call, as in ``add_process_set``.

    Returns:
        True, or False for the world and for a set that is not added.

    Raises:
        MismatchError: the ranks name different sets.
        HorovodInternalError: the job has failed.
    """
    if process_set is global_process_set or process_set.process_set_id is None:
        return False
    _check_others_can_call("remove_process_set")
    if among_members:
        _core.remove_process_set_among_members(process_set.process_set_id).wait()
    else:
        _core.remove_process_set(process_set.process_set_id)
    process_set.process_set_id = None
    with contextlib.suppress(ValueError):
        _added.remove(process_set)
    return True


def _check_others_can_call(call: str) -> None:
    from .epochs import check_others_can_call

    check_others_can_call(call)


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Returns all sets of the job, with the world.

    Returns:
        the world ranks of each set, by its number.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return {number: _core.process_set_ranks(number) for number in _core.process_set_ids()}


def adopt(process_sets: Iterable[ProcessSet]) -> None:
    """Sets the ids of the sets that ``init`` has made."""
    wanted = list(process_sets)
    if not wanted:
        return
    ids = {tuple(ranks): number for number, ranks in get_process_set_ids_and_ranks().items()}
    for process_set in wanted:
        process_set.process_set_id = ids[tuple(process_set.ranks)]
        _added.append(process_set)


def follow() -> None:
    """Gives the sets their ranks in the epoch that has begun.

    A set that has lost a rank keeps its number, and a collective in it raises the reason.
    """
    ranks_by_id = get_process_set_ids_and_ranks()
    for process_set in _added:
        process_set.follow(ranks_by_id)


def forget_all() -> None:
    """Marks all sets as not added, because the job has ended. The objects may be added to the next job."""
    for process_set in _drain(_added):
        process_set.process_set_id = None


def _drain(sets: list[ProcessSet]) -> Iterator[ProcessSet]:
    while sets:
        yield sets.pop()


def _world_ranks_of(communicator: Any) -> list[int]:
    """Returns the ranks that the processes of an mpi4py communicator have in MPI's world."""
    from mpi4py import MPI  # type: ignore[import-not-found,unused-ignore]

    group, world = communicator.Get_group(), MPI.COMM_WORLD.Get_group()
    translated: list[int] = MPI.Group.Translate_ranks(group, list(range(group.Get_size())), world)
    return translated
