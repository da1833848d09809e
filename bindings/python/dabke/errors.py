"""The exceptions: one class for each status of the C API, all of them `DabkeError`.

What a caller has done wrong is a ``ValueError`` too. What a job can be started again after (a lost peer, an abort,
a shutdown of others, a stall, a time limit, the network) is a ``HorovodInternalError`` too, the name by which elastic
training programs catch it. Each carries the runtime's whole text and its ``status``.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AbortedError",
    "AlreadyInitializedError",
    "DabkeError",
    "DuplicateNameError",
    "ForkedError",
    "HorovodInternalError",
    "InternalError",
    "InterruptedWaitError",
    "InvalidArgumentError",
    "MismatchError",
    "NotBuiltError",
    "NotInitializedError",
    "OutOfMemoryError",
    "PeerLostError",
    "ShutDownError",
    "StalledError",
    "StillPendingError",
    "TimedOutError",
    "TransportError",
    "UnimplementedError",
    "UnknownProcessSetError",
    "UnsupportedError",
    "from_status",
]


class DabkeError(RuntimeError):
    """An error of the runtime. ``status`` is its number in the C API (dabke_status)."""

    status: ClassVar[int] = 19


class HorovodInternalError(DabkeError):
    """The job has failed, not this program: it can be started again from the last good state."""


class InvalidArgumentError(DabkeError, ValueError):
    """An argument makes no sense: a shape, strides, a root, splits, a setting."""

    status = 2


class NotInitializedError(DabkeError, ValueError):
    """Called before ``init`` or after ``shutdown``."""

    status = 3


class AlreadyInitializedError(DabkeError):
    """``init`` was called twice without a ``shutdown`` between."""

    status = 4


class MismatchError(DabkeError):
    """The ranks disagree about a tensor's shape, dtype, operation, root, scale or process set."""

    status = 5


class DuplicateNameError(DabkeError, ValueError):
    """The name is still in flight on this rank, and the job runs with DUPLICATE_NAMES=error."""

    status = 6


class UnknownProcessSetError(DabkeError, ValueError):
    """There is no process set of this id; it may have been removed."""

    status = 7


class PeerLostError(HorovodInternalError):
    """A rank has ended, or its host cannot be reached."""

    status = 8


class ShutDownError(HorovodInternalError):
    """The job was shut down, here or by a rank that this operation waited for."""

    status = 9


class StalledError(HorovodInternalError):
    """Some ranks have waited for the others longer than STALL_SHUTDOWN_TIME_SECONDS."""

    status = 10


class AbortedError(HorovodInternalError):
    """A rank has called ``abort``, or ended with an uncaught exception; the text has its reason."""

    status = 11


class TimedOutError(HorovodInternalError):
    """Something took longer than its limit, such as START_TIMEOUT_SECONDS for ``init``."""

    status = 12


class UnimplementedError(DabkeError, NotImplementedError):
    """This version does not have it yet."""

    status = 13


class NotBuiltError(DabkeError):
    """This build does not have it."""

    status = 14


class UnsupportedError(DabkeError, ValueError):
    """A dtype or a device that no backend of this build can work on."""

    status = 15


class OutOfMemoryError(DabkeError, MemoryError):
    """A rank had no memory for an output; the text names both."""

    status = 16


class TransportError(HorovodInternalError):
    """The network, the shared memory or a file failed."""

    status = 17


class ForkedError(DabkeError):
    """Called in a forked child of a rank, which is no part of the job."""

    status = 18


class InternalError(DabkeError):
    """A fault in the runtime; the text says what it saw."""

    status = 19


class InterruptedWaitError(DabkeError):
    """A wait was stopped; the operation is still pending."""

    status = 20


class StillPendingError(DabkeError, TimeoutError):
    """A wait's time was up; the operation is still pending and can be waited for again."""

    status = 1


_BY_STATUS: dict[int, type[DabkeError]] = {
    kind.status: kind
    for kind in (
        StillPendingError,
        InvalidArgumentError,
        NotInitializedError,
        AlreadyInitializedError,
        MismatchError,
        DuplicateNameError,
        UnknownProcessSetError,
        PeerLostError,
        ShutDownError,
        StalledError,
        AbortedError,
        TimedOutError,
        UnimplementedError,
        NotBuiltError,
        UnsupportedError,
        OutOfMemoryError,
        TransportError,
        ForkedError,
        InternalError,
        InterruptedWaitError,
    )
}


def from_status(status: int, text: str) -> DabkeError:
    """The exception for a status of the C API, with the runtime's text."""
    return _BY_STATUS.get(status, InternalError)(text)
