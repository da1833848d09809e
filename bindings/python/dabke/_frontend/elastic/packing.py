"""The copy of a state as bytes: a short pickle, and the memory of its arrays, which is not copied for it.

The pickle has the lengths of the memory pieces. A receiver makes one piece of memory for all of them, and its
arrays lie in that memory.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ..objects import pickler

__all__ = ["Packed", "Unpacked", "register_reduction"]

# Returns the function and the arguments that make an equal object, as `__reduce__` does.
Reduction = Callable[[Any], tuple[Any, ...]]

_ALIGNMENT = 64
_reductions: list[tuple[type, Reduction]] = []


def register_reduction(kind: type, reduction: Reduction) -> None:
    """Makes the memory of a framework's arrays travel outside of the pickle. NumPy's arrays do so already.

    Args:
        kind: the class of the arrays.
        reduction: a function of an array, whose result has the memory as a ``pickle.PickleBuffer``.
    """
    _reductions.append((kind, reduction))


def _pickler_class() -> Any:
    base: Any = getattr(pickler(), "Pickler")

    class Pickler(base):  # type: ignore[misc, unused-ignore]
        def reducer_override(self, obj: Any) -> Any:
            for kind, reduction in _reductions:
                if isinstance(obj, kind):
                    return reduction(obj)
            override = getattr(super(), "reducer_override", None)
            return NotImplemented if override is None else override(obj)

    return Pickler


class _Layout:
    """The places of the pieces in the common memory. Each begins at a multiple of 64 bytes."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.begins = []
        self.size = 0
        for length in lengths:
            self.begins.append(self.size)
            self.size += -(-length // _ALIGNMENT) * _ALIGNMENT
        self.lengths = list(lengths)


class Packed:
    """The bytes of an object, for a rank that sends.

    Attributes:
        head: the pickle.
        size: the size of the memory that all arrays need, in bytes.
        lengths: the lengths of the pieces of that memory.
    """

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        _pickler_class()(stream, protocol=5, buffer_callback=buffers.append).dump(value)
        self._buffers = buffers  # keeps the memory
        self._pieces = [buffer.raw() for buffer in buffers]
        self.lengths = [piece.nbytes for piece in self._pieces]
        self._layout = _Layout(self.lengths)
        self.size = self._layout.size
        self.head = pickle.dumps((self.lengths, stream.getvalue()), protocol=5)

    def part(self, begin: int, end: int) -> memoryview:
        """Returns the bytes of a range of the common memory, as a view if they lie in one piece."""
        found = []
        for place, piece in zip(self._layout.begins, self._pieces):
            first, last = max(begin, place), min(end, place + piece.nbytes)
            if first < last:
                found.append((first, last, piece[first - place : last - place]))
        if len(found) == 1 and found[0][:2] == (begin, end) and not found[0][2].readonly:
            return found[0][2]
        whole = memoryview(bytearray(end - begin))
        for first, last, view in found:
            whole[first - begin : last - begin] = view
        return whole


def _fresh_memory(size: int) -> memoryview:
    """Returns memory whose pages are made when they are first written. A `bytearray` would write all of them
    before anything is received."""
    if size == 0:
        return memoryview(bytearray())
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


class Unpacked:
    """The bytes of an object, for a rank that receives.

    Attributes:
        memory: the common memory of its arrays, which the receiver fills.
    """

    def __init__(self, head: bytes) -> None:
        lengths, self._stream = pickle.loads(head)
        self._layout = _Layout(lengths)
        self.memory = _fresh_memory(self._layout.size)

    def value(self) -> Any:
        """Returns the object. Its arrays lie in the common memory."""
        pieces = [
            self.memory[begin : begin + length]
            for begin, length in zip(self._layout.begins, self._layout.lengths)
        ]
        return pickle.loads(self._stream, buffers=pieces)
