"""The options of a call, as one object that is made once for each combination of arguments."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from .. import _core
from ..compression import Compression
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average

__all__ = ["AnySet", "CallOptions", "WORLD", "options_of"]

AnySet = ProcessSet | int
WORLD = global_process_set

_MOST_STREAMS = 64  # for which an object keeps its options; a program may make ever new streams


@dataclass(frozen=True)
class CallOptions:
    """The arguments of a collective, but for its tensors and their names.

    The public functions make it of their arguments, and everything below them takes it as it is.

    Attributes:
        process_set: the runtime's number of the set.
        op: the number of the ``ReduceOp``. It counts for reductions alone, as do the two factors.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        compression: the number of the ``Compression``; for an allreduce.
        priority: higher first among what is ready at the same time.
        root_rank: the world rank that sends; for a broadcast.
    """

    process_set: int
    op: int = Average
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    compression: int = Compression.default
    priority: int = 0
    root_rank: int = 0
    core: _core.Options = field(init=False, repr=False, compare=False)
    """The same for the compiled part, of tensors on the host."""
    _by_stream: dict[int, _core.Options] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", self._compile(0))

    def on_stream(self, stream: int) -> _core.Options:
        """The same for the compiled part, of tensors that `stream` produces; 0: of tensors on the host."""
        if stream == 0:
            return self.core
        found = self._by_stream.get(stream)
        if found is None:
            if len(self._by_stream) >= _MOST_STREAMS:
                self._by_stream.clear()
            found = self._by_stream[stream] = self._compile(stream)
        return found

    def with_splits(self, splits: list[int], stream: int = 0) -> _core.Options:
        """The same for the compiled part, with the rows that an alltoall sends to each rank of the set."""
        return self._compile(stream, splits)

    def _compile(self, stream: int, splits: list[int] | None = None) -> _core.Options:
        return _core.Options(
            process_set=self.process_set,
            op=int(self.op),
            root_rank=self.root_rank,
            prescale_factor=self.prescale_factor,
            postscale_factor=self.postscale_factor,
            compression=int(self.compression),
            priority=self.priority,
            splits=splits,
            stream=stream,
        )


# By type too: 1.0 is not a rank, whichever call has asked for rank 1 before.
_made_once = functools.lru_cache(maxsize=4096, typed=True)(CallOptions)


def options_of(
    process_set: int,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: int = Compression.default,
    priority: int = 0,
    root_rank: int = 0,
) -> CallOptions:
    """The options of a call; the same ones are made once."""
    # 0.0 and -0.0 are equal, but not the same; neither is worth a place.
    make = _made_once if prescale_factor and postscale_factor else CallOptions
    return make(process_set, op, prescale_factor, postscale_factor, compression, priority, root_rank)
