"""The exceptions: one class for each status of the C API, all of them `DabkeError`.

Errors of the caller are also a ``ValueError``. Errors after which a job can be started again are also a
``HorovodInternalError``, which elastic training programs catch. Such errors are a lost peer, an abort, a
shutdown of others, a stall, a timeout, and errors of the network. Each error has the runtime's whole text and
its ``status``.
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
    """An error of the runtime. ``status`` is its number in the C API (``dabke_status``)."""

    status: ClassVar[int] = _STATUSES["internal"]


class HorovodInternalError(DabkeError):
    """The job has failed, not this program. It can be started again from the last good state."""


class InvalidArgumentError(DabkeError, ValueError):
    """An argument is not valid: a shape, strides, a root, splits, a setting."""

    status = _STATUSES["invalid_argument"]


class NotInitializedError(DabkeError, ValueError):
    """The call came before ``init`` or after ``shutdown``."""

    status = _STATUSES["not_initialized"]


class AlreadyInitializedError(DabkeError):
    """``init`` was called twice without a ``shutdown`` between."""

    status = _STATUSES["already_initialized"]


class MismatchError(DabkeError):
    """The ranks disagree about a tensor's shape, dtype, operation, root, scale or process set."""

    status = _STATUSES["mismatch"]


class DuplicateNameError(DabkeError, ValueError):
    """An operation of this name is pending on this rank, and the job runs with DUPLICATE_NAMES=error."""

    status = _STATUSES["duplicate_name"]


class UnknownProcessSetError(DabkeError, ValueError):
    """The process set does not exist, or this rank is not in it. It may have been removed."""

    status = _STATUSES["unknown_process_set"]


class PeerLostError(HorovodInternalError):
    """A rank has ended, or its host cannot be reached."""

    status = _STATUSES["peer_lost"]


class ShutDownError(HorovodInternalError):
    """The job was shut down, here or by a rank that this operation waited for."""

    status = _STATUSES["shut_down"]


class StalledError(HorovodInternalError):
    """Ranks have waited for other ranks for longer than STALL_SHUTDOWN_TIME_SECONDS."""

    status = _STATUSES["stalled"]


class AbortedError(HorovodInternalError):
    """A rank has called ``abort``, or ended with an uncaught exception; the text has its reason."""

    status = _STATUSES["aborted"]


class TimedOutError(HorovodInternalError):
    """A call took longer than its limit, such as START_TIMEOUT_SECONDS for ``init``."""

    status = _STATUSES["timeout"]


class UnimplementedError(DabkeError, NotImplementedError):
    """This version does not have the feature yet."""

    status = _STATUSES["not_implemented"]


class NotBuiltError(DabkeError):
    """This build does not have the part."""

    status = _STATUSES["not_built"]


class UnsupportedError(DabkeError, ValueError):
    """No backend of this build supports the dtype or the device."""

    status = _STATUSES["unsupported"]


class OutOfMemoryError(DabkeError, MemoryError):
    """A rank had no memory for an output. The text names the rank and the tensor."""

    status = _STATUSES["out_of_memory"]


class TransportError(HorovodInternalError):
    """The network, the shared memory or a file failed."""

    status = _STATUSES["transport"]


class ForkedError(DabkeError):
    """The call came from a forked child of a rank. Such a child is not part of the job."""

    status = _STATUSES["forked"]


class InternalError(DabkeError):
    """A defect of the runtime. The text describes it."""

    status = _STATUSES["internal"]


class InterruptedWaitError(DabkeError):
    """A wait was stopped; the operation is still pending."""

    status = _STATUSES["interrupted"]


class StillPendingError(DabkeError, TimeoutError):
    """A wait timed out. The operation is still pending, and can be waited for again."""

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
    """Returns the exception for a status of the C API, with the runtime's text."""
    return _BY_STATUS.get(status, InternalError)(text)
