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

_MOST_STREAMS = 64  # for which an object keeps options; a program may make new streams without end


@dataclass(frozen=True, eq=False)
class CallOptions:
    """The arguments of a collective, except its tensors and their names.

    The public functions make this object of their arguments. All functions below them pass it on unchanged.
    An object equals only itself: 0.0 and -0.0 are equal factors, but not equal options.

    Attributes:
        process_set: the runtime's number of the set.
        op: the number of the ``ReduceOp``. Only reductions read it and the two factors.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        compression: the number of the ``Compression``; for an allreduce.
        priority: higher first among tensors that are ready at the same time.
        root_rank: the world rank that sends; for a broadcast.
        call_sequence: not 0 for calls that come in the same order on all ranks of the set.
    """

    process_set: int
    op: int = Average
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    compression: int = Compression.default
    priority: int = 0
    root_rank: int = 0
    call_sequence: int = 0
    core: _core.Options = field(init=False, repr=False, compare=False)
    """The same options for the compiled part, for tensors on the host."""
    _by_stream: dict[int, _core.Options] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", self._compile(0))

    def on_stream(self, stream: int) -> _core.Options:
        """Returns the options for the compiled part, for tensors that `stream` produces; 0: host tensors."""
        if stream == 0:
            return self.core
        found = self._by_stream.get(stream)
        if found is None:
            if len(self._by_stream) >= _MOST_STREAMS:
                self._by_stream.clear()
            found = self._by_stream[stream] = self._compile(stream)
        return found

    def with_splits(self, splits: list[int], stream: int = 0) -> _core.Options:
        """Returns the options for the compiled part, with the rows of an alltoall for each rank."""
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
            call_sequence=self.call_sequence,
        )


# The cache separates types, too: 1.0 is not a rank, even if an earlier call has passed 1.
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
    """Returns the options of a call. Equal arguments give the same object."""
    # 0.0 and -0.0 are equal keys for different options, and both are rare, so they are not cached.
    make = _made_once if prescale_factor and postscale_factor else CallOptions
    return make(process_set, op, prescale_factor, postscale_factor, compression, priority, root_rank)
