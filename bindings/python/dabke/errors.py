"""The exceptions: one class for each status of the C API, all of them `DabkeError`.

What a caller has done wrong is a ``ValueError`` too. What a job can be started again after (a lost peer, an abort,
a shutdown of others, a stall, a time limit, the network) is a ``HorovodInternalError`` too, the name by which elastic
training programs catch it. Each carries the runtime's whole text and its ``status``.
"""

from __future__ import annotations

from typing import ClassVar

from . import _core

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

_STATUSES = _core.statuses()


class DabkeError(RuntimeError):
    """An error of the runtime. ``status`` is its number in the C API (dabke_status)."""

    status: ClassVar[int] = _STATUSES["internal"]


class HorovodInternalError(DabkeError):
    """The job has failed, not this program: it can be started again from the last good state."""


class InvalidArgumentError(DabkeError, ValueError):
    """An argument makes no sense: a shape, strides, a root, splits, a setting."""

    status = _STATUSES["invalid_argument"]


class NotInitializedError(DabkeError, ValueError):
    """Called before ``init`` or after ``shutdown``."""

    status = _STATUSES["not_initialized"]


class AlreadyInitializedError(DabkeError):
    """``init`` was called twice without a ``shutdown`` between."""

    status = _STATUSES["already_initialized"]


class MismatchError(DabkeError):
    """The ranks disagree about a tensor's shape, dtype, operation, root, scale or process set."""

    status = _STATUSES["mismatch"]


class DuplicateNameError(DabkeError, ValueError):
    """The name is still in flight on this rank, and the job runs with DUPLICATE_NAMES=error."""

    status = _STATUSES["duplicate_name"]


class UnknownProcessSetError(DabkeError, ValueError):
    """There is no process set of this id; it may have been removed."""

    status = _STATUSES["unknown_process_set"]


class PeerLostError(HorovodInternalError):
    """A rank has ended, or its host cannot be reached."""

    status = _STATUSES["peer_lost"]


class ShutDownError(HorovodInternalError):
    """The job was shut down, here or by a rank that this operation waited for."""

    status = _STATUSES["shut_down"]


class StalledError(HorovodInternalError):
    """Some ranks have waited for the others longer than STALL_SHUTDOWN_TIME_SECONDS."""

    status = _STATUSES["stalled"]


class AbortedError(HorovodInternalError):
    """A rank has called ``abort``, or ended with an uncaught exception; the text has its reason."""

    status = _STATUSES["aborted"]


class TimedOutError(HorovodInternalError):
    """Something took longer than its limit, such as START_TIMEOUT_SECONDS for ``init``."""

    status = _STATUSES["timeout"]


class UnimplementedError(DabkeError, NotImplementedError):
    """This version does not have it yet."""

    status = _STATUSES["not_implemented"]


class NotBuiltError(DabkeError):
    """This build does not have it."""

    status = _STATUSES["not_built"]


class UnsupportedError(DabkeError, ValueError):
    """A dtype or a device that no backend of this build can work on."""

    status = _STATUSES["unsupported"]


class OutOfMemoryError(DabkeError, MemoryError):
    """A rank had no memory for an output; the text names both."""

    status = _STATUSES["out_of_memory"]


class TransportError(HorovodInternalError):
    """The network, the shared memory or a file failed."""

    status = _STATUSES["transport"]


class ForkedError(DabkeError):
    """Called in a forked child of a rank, which is no part of the job."""

    status = _STATUSES["forked"]


class InternalError(DabkeError):
    """A fault in the runtime; the text says what it saw."""

    status = _STATUSES["internal"]


class InterruptedWaitError(DabkeError):
    """A wait was stopped; the operation is still pending."""

    status = _STATUSES["interrupted"]


class StillPendingError(DabkeError, TimeoutError):
    """A wait's time was up; the operation is still pending and can be waited for again."""

    status = _STATUSES["in_progress"]


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
