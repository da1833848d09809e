"""Broadcast and allgather of Python objects, as pickles in host memory."""

from __future__ import annotations

import array
import functools
import pickle
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from ..errors import InvalidArgumentError
from ..handles import synchronize
from ..process_sets import set_id_of
from .collective_table import ALLGATHER, BROADCAST, SubmitBy, directly
from .names import prefixed_name
from .options import WORLD, AnySet, options_of

__all__ = ["allgather_object", "broadcast_object", "pickler"]

T = TypeVar("T")

_NOT_PICKLED = -1  # instead of a length


def pickler() -> Any:
    """Returns cloudpickle if it is installed, else pickle, which cannot send functions of ``__main__``."""
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return pickle
    return cloudpickle


class _Wire:
    """Sends lengths and bytes between the ranks of a set, under names with a common beginning."""

    def __init__(self, base: str, process_set: int, submit_by: SubmitBy) -> None:
        self.base, self.process_set = base, process_set
        self._submit_by = submit_by

    def broadcast(self, part: str, memory: Any, root_rank: int) -> None:
        """Copies the memory of `root_rank` to all ranks. All pass writable memory of the same size."""
        options = options_of(self.process_set, root_rank=int(root_rank)).core
        handle = self._submit_by(BROADCAST.submit, f"{self.base}.{part}", memory, None, options, None, True)
        synchronize(handle)

    def start_allgather(self, part: str, memory: Any) -> _core.Handle:
        options = options_of(self.process_set).core
        return self._submit_by(ALLGATHER.submit, f"{self.base}.{part}", memory, None, options, memoryview_of)

    def allgather(self, part: str, memory: Any) -> memoryview:
        """Returns the elements of all ranks, concatenated."""
        return synchronize(self.start_allgather(part, memory))  # type: ignore[no-any-return]


def memoryview_of(handle: _core.Handle) -> memoryview:
    """Returns the only output of a handle, as a view of the runtime's own memory."""
    return memoryview(handle.output(0))


def _length(count: int) -> array.array[int]:
    return array.array("q", [count])


class _Attempts:
    """Attempts of this rank in a call of all ranks. If one rank fails, `all_succeed` raises on all ranks."""

    def __init__(self, call: str, wire: _Wire) -> None:
        self._call, self._wire = call, wire
        self._error: Exception | None = None
        self._text = b""

    def __call__(self, what: str, function: Callable[[], T]) -> T | None:
        """Returns the function's result; None if it raises, or if an earlier attempt has failed."""
        if self._error is not None:
            return None
        try:
            return function()
        except Exception as error:
            why = "".join(traceback.format_exception_only(type(error), error)).strip()
            text = f"{self._call} '{self._wire.base}': rank {_core.rank()} cannot {what}: {why}"
            self._error, self._text = error, text.encode(errors="backslashreplace")
            return None

    def all_succeed(self) -> None:
        """Raises the text of the first rank that has failed. Every rank must call it, failed or not."""
        lengths = self._wire.allgather("failures", _length(len(self._text))).tolist()
        if not any(lengths):
            return
        texts = bytes(self._wire.allgather("texts", self._text))
        first = next(length for length in lengths if length > 0)  # ranks before it have empty texts
        raise InvalidArgumentError(texts[:first].decode()) from self._error


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: AnySet = WORLD,
    *,
    submit_by: SubmitBy = directly,
) -> Any:
    """Implements a frontend's ``broadcast_object``, which explains the arguments but `submit_by`."""
    number = set_id_of(process_set)
    wire = _Wire(prefixed_name("broadcast_object", name, number), number, submit_by)
    attempt = _Attempts("broadcast_object", wire)
    is_root = _core.rank() == root_rank
    data = attempt("pickle its object", lambda: bytearray(pickler().dumps(obj))) if is_root else None
    length = _length(_NOT_PICKLED if data is None else len(data))
    wire.broadcast("length", length, root_rank)
    if length[0] != _NOT_PICKLED:
        received = bytearray(length[0]) if data is None else data
        wire.broadcast("data", received, root_rank)
        if not is_root:
            obj = attempt(f"unpickle the object of rank {root_rank}", lambda: pickle.loads(received))
    attempt.all_succeed()
    return obj


def allgather_object(
    obj: Any, name: str | None = None, *, process_set: AnySet = WORLD, submit_by: SubmitBy = directly
) -> list[Any]:
    """Implements a frontend's ``allgather_object``, which explains the arguments but `submit_by`."""
    number = set_id_of(process_set)
    wire = _Wire(prefixed_name("allgather_object", name, number), number, submit_by)
    attempt = _Attempts("allgather_object", wire)
    data = attempt("pickle its object", lambda: bytes(pickler().dumps(obj)))
    waiting = [
        wire.start_allgather("lengths", _length(_NOT_PICKLED if data is None else len(data))),
        wire.start_allgather("data", b"" if data is None else data),
    ]
    lengths, all_data = (synchronize(handle) for handle in waiting)
    objects = []
    if _NOT_PICKLED not in lengths.tolist():
        begin = 0
        for rank, length in zip(_core.process_set_ranks(number), lengths.tolist()):
            part = all_data[begin : begin + length]
            objects.append(
                attempt(f"unpickle the object of rank {rank}", functools.partial(pickle.loads, part))
            )
            begin += length
    attempt.all_succeed()
    return objects
