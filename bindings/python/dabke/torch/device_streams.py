"""PyTorch's tensors on CUDA devices: the streams that produce them, and streams that wait for results.

The host does not wait for such a result. After a stream was made to wait, only the operation's handle raises
a failure. So the handles are kept until the outcome of their operation is known. Each further wait polls the
oldest handles, and the end of the job waits for the last. A failure ends the job, so all later calls raise
it, too.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _core
from ..errors import AbortedError, DuplicateNameError, HorovodInternalError
from . import profile_ranges

__all__ = [
    "UnobservedHandles",
    "clear",
    "is_supported",
    "wait_enqueued",
    "make_stream_wait",
    "raise_failures",
    "wait_all",
    "shut_down",
    "stream_of",
    "submit",
    "record_use",
]

# PyTorch for AMD's GPUs calls their tensors cuda, too.
_IS_ROCM = getattr(torch.version, "hip", None) is not None


def is_supported(tensor: torch.Tensor) -> bool:
    """Returns True if the runtime can work on the tensor's own memory."""
    return tensor.is_cpu or (tensor.is_cuda and _core.backend_enabled("nccl") and not _IS_ROCM)


def stream_of(tensor: torch.Tensor) -> int:
    """Returns the stream that produces the tensor: the caller's current stream; 0 for host tensors."""
    return _current_stream(tensor.device) if tensor.is_cuda else 0


def _current_stream(device: Any) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream) or _core.LEGACY_STREAM


def record_use(tensor: torch.Tensor) -> None:
    """Notes that the current stream uses the tensor. Its memory is not reused before that use ends."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


class UnobservedHandles:
    """Handles of operations for which streams wait, the oldest first. Any thread may call."""

    def __init__(self) -> None:
        self._handles: deque[_core.Handle] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._handles)

    def add(self, handle: _core.Handle) -> None:
        self._handles.append(handle)

    def raise_failures(self) -> None:
        """Drops the handles of operations that have ended, and raises the first failure. Does not wait."""
        while (handle := self._take(only_ended=True)) is not None:
            self._observe(handle)

    def wait_all(self) -> None:
        """Waits for all operations, drops their handles, and raises the first failure."""
        while (handle := self._take(only_ended=False)) is not None:
            self._observe(handle)

    def clear(self) -> None:
        self._handles.clear()

    def _take(self, only_ended: bool) -> _core.Handle | None:
        with self._lock:
            if not self._handles or (only_ended and not self._handles[0].poll()):
                return None
            return self._handles.popleft()

    def _observe(self, handle: _core.Handle) -> None:
        try:
            handle.wait()
        except Exception:
            # Later operations have failed by the same cause, which the caller gets now.
            self.clear()
            clear()
            raise


_unobserved = UnobservedHandles()
_is_watching_exit = False


def raise_failures() -> None:
    """Raises a failure that came after a stream was made to wait, if no call has raised it yet."""
    _unobserved.raise_failures()


def wait_all() -> None:
    """Waits for all operations for which a stream still waits, and raises the first failure."""
    _unobserved.wait_all()


def clear() -> None:
    """Drops all handles, because another call raises the job's failure, or another job begins."""
    _unobserved.clear()


def submit(function: Callable[..., _core.Handle], *arguments: Any) -> _core.Handle:
    """Calls a function of ``_core`` that submits.

    The caller regards a name as free for which only a stream still waits, so the call then waits for that
    operation.
    """
    try:
        handle = function(*arguments)
    except DuplicateNameError:
        if not _unobserved:
            raise
        wait_all()
        handle = function(*arguments)
    if profile_ranges.is_recorded():
        profile_ranges.record(handle, f"dabke:{function.__name__}")
    return handle


def make_stream_wait(handles: Iterable[_core.Handle], timeout: float | None = None) -> bool:
    """Makes the calling thread's current streams wait for these operations.

    The call itself waits for operations on the host. For others it waits until all ranks have submitted and
    the operations are handed to the device, at most `timeout` seconds for each.

    Returns:
        True, or False after a timeout.
    """
    raise_failures()
    try:
        for handle in handles:
            device = handle.cuda_device
            if device < 0:
                if not handle.wait(timeout):
                    return False
                continue
            if not handle.wait_stream(_current_stream(device), timeout):
                return False
            if not handle.poll():
                _add(handle)
    except HorovodInternalError:
        clear()
        raise
    return True


_idle_streams: dict[int, Any] = {}


def wait_enqueued(handles: Iterable[_core.Handle]) -> None:
    """Waits until all ranks have submitted the operations and they are handed to the device.

    No stream of the caller waits.
    """
    for handle in handles:
        device = handle.cuda_device
        if device < 0:
            handle.wait()
            continue
        stream = _idle_streams.get(device)
        if stream is None:
            stream = _idle_streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        handle.wait_stream(int(stream.cuda_stream))


def _add(handle: _core.Handle) -> None:
    global _is_watching_exit
    if not _is_watching_exit:
        # Registered later than the package's own hook, so it runs before that hook leaves the job.
        _is_watching_exit = True
        atexit.register(_print_last_failure)
    _unobserved.add(handle)


def _print_last_failure() -> None:
    """Prints a failure at the interpreter's exit that no call could raise before."""
    try:
        wait_all()
    except AbortedError:
        pass  # the rank that has aborted the job has printed why


def shut_down(leave: Callable[[], None]) -> None:
    """Leaves the job, and raises a failure that no call has raised yet."""
    try:
        wait_all()
    finally:
        clear()
        leave()
