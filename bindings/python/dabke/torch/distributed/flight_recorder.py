"""The flight recorder: the latest calls of this process's groups, in a ring buffer.

A call costs one to two microseconds. Ended calls are found at later calls, so the buffer soon drops their
operations. flight_file.py writes the buffer for PyTorch's ``torchfrtrace``.

The variables are PyTorch's own, as for NCCL:

    TORCH_FR_BUFFER_SIZE, TORCH_NCCL_TRACE_BUFFER_SIZE         calls that are kept (2000); 0: no recorder
    TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DEBUG_INFO_TEMP_FILE   the path of a dump, without the rank
    TORCH_NCCL_DUMP_ON_TIMEOUT                                 0: no dump when a call fails
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ...errors import HorovodInternalError, MismatchError, StillPendingError
from . import flight_file

__all__ = ["GroupFacts", "Record", "dump", "end", "group_facts", "is_on", "note_failure", "poll", "record"]


def _variable(default: str, *names: str) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), default)


def _buffer_size() -> int:
    text = _variable("2000", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    return max(int(text), 0) if text.lstrip("-").isdigit() else 2000


_SIZE = _buffer_size()
is_on = _SIZE > 0


class GroupFacts:
    """The facts of a group that the recorder keeps, also after the group's end."""

    def __init__(self, number: int, group: Any) -> None:
        self.number = number
        self.name: str = group._label()
        self.desc: str = group.getGroupDesc() or "undefined"
        self.world_ranks: list[int] = list(group._world_ranks)
        self.rank: int = group.getRank()
        self.collectives, self.messages = itertools.count(1), itertools.count(1)


class Record(NamedTuple):
    """A call. While it is in the ring it is a list, because that is made faster."""

    number: int
    created_ns: int
    group: GroupFacts
    title: str
    sequence: int
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    dtype: Any
    message: tuple[int | None, int] | None  # the peer, a group rank, and the tag
    limit_seconds: float | None
    code: Any  # the place in the program
    instruction: int
    handles: list[Any] | None  # None when the call has ended
    completed_ns: int | None  # None if the call is pending or has failed
    sender: int | None  # the world rank of a message's sender


_TITLE, _HANDLES, _COMPLETED_NS, _SENDER = (
    Record._fields.index(each) for each in ("title", "handles", "completed_ns", "sender")
)

_lock = threading.Lock()
_ring: deque[list[Any]] = deque(maxlen=_SIZE)
_pending: deque[list[Any]] = deque(maxlen=_SIZE)
_groups: dict[str, GroupFacts] = {}  # the newest group of each name
_numbers = itertools.count()
_has_dumped = False
_world: Any = None  # a weak reference

# The folders of torch and of this package, and a wrapper of torch's functions.
_BETWEEN = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep,
)
_WRAPPER = "typing_extensions.py"


class _BetweenFiles(dict[str, bool]):
    """True for files of this package and of torch, whose frames are between the recorder and the program."""

    def __missing__(self, path: str) -> bool:
        own = self[path] = path.startswith(_BETWEEN) or path.endswith(_WRAPPER)
        return own


_is_between = _BetweenFiles()


def record(
    group: Any,
    title: str,
    sequence: int,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    dtype: Any,
    message: tuple[int | None, int] | None,
    handles: list[Any],
    callers: int = 2,
    is_polled: bool = True,
) -> list[Any]:
    """Records a call that was just submitted, and returns its record.

    `sequence` counts the group's collectives, or its messages. The program's frame is found from `callers`
    frames above on. If the record is not polled, the caller ends it with ``end`` or ``poll``.
    """
    try:
        frame: Any = sys._getframe(callers)
    except ValueError:  # called by a thread of torch's, without a program
        frame = sys._getframe()
    while _is_between[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    now_ns = time.time_ns()
    call = [
        next(_numbers),
        now_ns,
        group._facts,
        title,
        sequence,
        inputs,
        outputs,
        dtype,
        message,
        group._limit,
        frame.f_code,
        frame.f_lasti,
        handles,
        None,
        None,
    ]
    # There is no lock. If two threads take an ended call out, an unfinished one may leave with it; a dump
    # polls that one again.
    _ring.append(call)
    if is_polled:
        _pending.append(call)
        if len(_pending) > 1:
            _drop_ended(now_ns)
    return call


def poll(call: list[Any]) -> None:
    """Lets later calls find the end of a record that was not polled."""
    _pending.append(call)


def end(call: list[Any], sender: int | None) -> None:
    """Ends a record whose call has succeeded. `sender` is the world rank of a message's sender."""
    call[_HANDLES], call[_COMPLETED_NS], call[_SENDER] = None, time.time_ns(), sender


def _drop_ended(now_ns: int) -> None:
    # The newest is not polled: the runtime would no longer leave it to the thread that waits for it.
    while len(_pending) > 1 and _end_if_done(_pending[0], now_ns):
        _pending.popleft()


def _end_if_done(call: list[Any], now_ns: int) -> bool:
    """Drops the handles of a call that has ended."""
    handles = call[_HANDLES]
    if handles is None:
        return True
    for handle in handles:
        if not handle.poll():
            return False
    for handle in handles:
        if handle.status != 0:
            break
    else:
        call[_COMPLETED_NS] = now_ns
        if call[_TITLE] == "recv":
            call[_SENDER] = handles[0].sender()
    call[_HANDLES] = None
    return True


def group_facts(group: Any) -> GroupFacts:
    """Returns the facts of a group. They are gathered at its first call: torch names it late."""
    facts: GroupFacts | None = group._facts
    if facts is None:
        with _lock:
            _forget_former_world()
            facts = group._facts = GroupFacts(len(_groups), group)
            _groups[facts.name] = facts
    return facts


def _forget_former_world() -> None:
    """Drops the calls of an earlier world group and its subgroups: names and ranks are new now."""
    global _world, _has_dumped
    world = dist.distributed_c10d._get_default_group() if dist.is_initialized() else None
    if world is not None and (_world is None or _world() is not world):
        _world = weakref.ref(world)
        _has_dumped = False
        _groups.clear()
        _ring.clear()
        _pending.clear()


def _records() -> list[Record]:
    """Returns the calls of the groups that exist, or existed last."""
    calls, now_ns = list(_ring), time.time_ns()
    for each in calls:
        _end_if_done(each, now_ns)
    records = [Record._make(each) for each in calls]
    return [each for each in records if _groups.get(each.group.name) is each.group]


def dump(path: str | os.PathLike[str] | None = None) -> str:
    """Writes the latest calls of this process's groups, for PyTorch's ``torchfrtrace``.

    Args:
        path: the file's path without the rank, which is appended; None: that of the variable
            TORCH_FR_DUMP_TEMP_FILE or TORCH_NCCL_DEBUG_INFO_TEMP_FILE, as for NCCL.

    Returns:
        The path of the written file.
    """
    begin = os.fspath(path) if path is not None else _default_path()
    groups = list(_groups.values())
    rank = groups[0].world_ranks[groups[0].rank] if groups else int(os.environ.get("RANK", "0"))
    return flight_file.write(f"{begin}{rank}", _records(), groups)


def _default_path() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "/tmp"), ".cache")
    default = os.path.join(cache, "torch", "comm_lib_trace_rank_")
    path = _variable(default, "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    if path == default:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    return path


def note_failure(error: BaseException) -> None:
    """Writes a dump if the ranks have failed together: the first time, unless the variable forbids it."""
    global _has_dumped
    if not isinstance(error, (HorovodInternalError, MismatchError, StillPendingError)):
        return  # a mistake of this rank, such as a wrong argument
    if _has_dumped or not _ring or os.environ.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "1").lower() in _NO:
        return
    _has_dumped = True
    try:
        print(f"dabke: the last calls of the process groups are in {dump()}", file=sys.stderr, flush=True)
    except OSError as failure:
        print(f"dabke: cannot write the calls of the process groups: {failure}", file=sys.stderr, flush=True)


_NO = ("0", "false", "no", "n", "off")
