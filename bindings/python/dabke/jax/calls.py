"""The description of a collective call, which a program carries from its trace to its lowering."""

from __future__ import annotations

import dataclasses

import numpy

from .. import _core
from .._frontend.options import CallOptions, options_of
from ..compression import Compression
from ..errors import InvalidArgumentError
from ..reduce_ops import Average

__all__ = ["Call"]


@dataclasses.dataclass(frozen=True)
class Call:
    """The names and options of one call on several arrays.

    Attributes:
        names: one an array, without the number of the call (``instances``).
        process_set: the runtime's number of the set.
        op: the number of the ``ReduceOp``.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        compression: the number of the ``Compression``.
        root_rank: the world rank that sends, of a broadcast.
    """

    names: tuple[str, ...]
    process_set: int
    op: int = int(Average)
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    compression: int = int(Compression.default)
    root_rank: int = 0

    @property
    def options(self) -> CallOptions:
        """The same for the compiled part of the package."""
        return options_of(
            self.process_set,
            self.op,
            self.prescale_factor,
            self.postscale_factor,
            self.compression,
            root_rank=self.root_rank,
        )

    @property
    def attributes(self) -> dict[str, object]:
        """The same for the handlers, without the names."""
        return {
            "process_set": numpy.int32(self.process_set),
            "op": numpy.int32(self.op),
            "prescale_factor": numpy.float64(self.prescale_factor),
            "postscale_factor": numpy.float64(self.postscale_factor),
            "compression": numpy.int32(self.compression),
            "root_rank": numpy.int32(self.root_rank),
        }

    def of(self, places: list[int]) -> Call:
        """The same call on some of its arrays only."""
        return dataclasses.replace(self, names=tuple(self.names[i] for i in places))

    def tangent(self) -> Call:
        """The call on the tangents of its arrays."""
        return dataclasses.replace(self, names=tuple(f"{name}.tangent" for name in self.names))

    def gradient(self, **changes: object) -> Call:
        """The call, with some options changed, on the gradients of its results."""
        names = tuple(f"{name.removesuffix('.tangent')}.grad" for name in self.names)
        return dataclasses.replace(self, names=names, **changes)  # type: ignore[arg-type]

    @property
    def set_size(self) -> int:
        """The ranks of the set."""
        return _core.process_set_size(self.process_set)

    @property
    def set_rank(self) -> int:
        """This rank's number in the set."""
        rank = _core.process_set_rank(self.process_set)
        if rank < 0:
            raise InvalidArgumentError(
                f"'{self.names[0]}': rank {_core.rank()} is not in process set {self.process_set}"
            )
        return rank
