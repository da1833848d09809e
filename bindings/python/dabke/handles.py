"""Handles of asynchronous operations, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from . import _core
from .arrays import as_array
from .errors import StillPendingError

__all__ = ["Handle", "poll", "synchronize", "wait", "wait_stream"]

Handle = _core.Handle


def poll(handle: Handle) -> bool:
    """Whether the operation has completed, with whatever result. Never blocks."""
    return handle.poll()


def wait(handle: Handle, timeout: float | None = None) -> bool:
    """Waits at most `timeout` seconds, without limit when None. False when the time was up.

    Raises the operation's error. Ctrl-C ends the wait; the operation goes on, unless this rank was running it for
    the others, whose job ends then.
    """
    return handle.wait(-1.0 if timeout is None else timeout)


def wait_stream(handle: Handle, stream: int, timeout: float | None = None) -> bool:
    """Makes a CUDA stream wait for the result of a tensor on its device; what is launched there next finds it.

    Waits itself only until all ranks have submitted and the operation is handed to the device, at most `timeout`
    seconds; False when the time was up. Of a tensor on the host it waits like ``wait``. What fails after it has
    returned is raised by ``wait`` and ``synchronize`` alone.

    Args:
        stream: the address of a ``cudaStream_t``, as ``torch.cuda.Stream.cuda_stream`` or CuPy's ``Stream.ptr`` have
            it; 0 and 1 are the legacy default stream, 2 is that of the calling thread.
    """
    return handle.wait_stream(stream, -1.0 if timeout is None else timeout)


def synchronize(handle: Handle, timeout: float | None = None) -> Any:
    """Waits like ``wait``, and gives what the blocking form would have given.

    Raises ``StillPendingError``, a ``TimeoutError``, when the time was up.
    """
    if not handle.wait(-1.0 if timeout is None else timeout):
        raise StillPendingError(f"the operation is still pending after {timeout} s; it can be waited for again")
    result = handle.result
    return result(handle) if type(result) is FunctionType else result


# What the result of a handle is where no memory was given for it.


def one_output(handle: Handle) -> Any:
    return as_array(handle.output(0))


def all_outputs(handle: Handle) -> list[Any]:
    return [as_array(handle.output(i)) for i in range(handle.output_count)]


def last_joined_rank(handle: Handle) -> int:
    return handle.last_joined_rank()


def with_splits(result: Any) -> Callable[[Handle], tuple[Any, list[int]]]:
    def output_and_splits(handle: Handle) -> tuple[Any, list[int]]:
        return (one_output(handle) if result is None else result), handle.received_splits()

    return output_and_splits
