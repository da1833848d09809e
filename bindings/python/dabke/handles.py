"""Handles of asynchronous operations, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from . import _core
from .arrays import Array, as_array
from .errors import StillPendingError

__all__ = ["Handle", "poll", "synchronize", "wait", "wait_stream"]

Handle = _core.Handle


def poll(handle: Handle) -> bool:
    """Returns at once whether the operation has completed, with success or an error.

    Args:
        handle: what an asynchronous collective has returned.
    """
    return handle.poll()


def wait(handle: Handle, timeout: float | None = None) -> bool:
    """Waits for the operation.

    Ctrl-C ends the wait and the operation goes on, unless this rank was running it for the others: their job ends then.

    Args:
        handle: what an asynchronous collective has returned.
        timeout: in seconds; None: without limit.

    Returns:
        whether the operation has completed; False when the time was up.

    Raises:
        DabkeError: the operation has failed; the class says how (``dabke.errors``).
    """
    return handle.wait(timeout)


def wait_stream(handle: Handle, stream: int, timeout: float | None = None) -> bool:
    """Makes a CUDA stream wait for the result of a tensor on its device; what is launched there next reads it.

    The call itself waits only until all ranks have submitted and the operation is handed to the device. For a tensor
    on the host it waits like ``wait``. What fails after it has returned is raised by ``wait`` and ``synchronize`` alone.

    Args:
        handle: what an asynchronous collective has returned.
        stream: the address of a ``cudaStream_t``, as ``torch.cuda.Stream.cuda_stream`` or CuPy's ``Stream.ptr`` have
            it; 0 and 1 are the legacy default stream, 2 is that of the calling thread.
        timeout: in seconds; None: without limit.

    Returns:
        False when the time was up.

    Raises:
        DabkeError: the operation has failed before it was handed to the device.
    """
    return handle.wait_stream(stream, timeout)


def synchronize(handle: Handle, timeout: float | None = None) -> Any:
    """Waits like ``wait``.

    Args:
        handle: what an asynchronous collective has returned.
        timeout: in seconds; None: without limit.

    Returns:
        what the blocking form would have returned.

    Raises:
        StillPendingError: the time was up; it is a ``TimeoutError``, and the handle can be waited for again.
        DabkeError: the operation has failed; the class says how (``dabke.errors``).
    """
    if not handle.wait(timeout):
        raise StillPendingError(
            f"the operation is still pending after {timeout} s; it can be waited for again"
        )
    return result_of(handle)


def result_of(handle: Handle) -> Any:
    """The result of an operation that has completed: `handle.result`, or what that function makes of the handle."""
    result = handle.result
    return result(handle) if type(result) is FunctionType else result


# What the result of a handle is where no memory was given for it.


def one_output(handle: Handle) -> Array:
    """The only output, as an array over the runtime's own memory."""
    array: Array = as_array(handle.output(0))
    return array


def all_outputs(handle: Handle) -> list[Array]:
    """The outputs of a group, as arrays over the runtime's own memory."""
    return [as_array(handle.output(i)) for i in range(handle.output_count)]


def last_joined_rank(handle: Handle) -> int:
    """The world rank that joined last."""
    return handle.last_joined_rank()


def with_splits(result: Any) -> Callable[[Handle], tuple[Any, list[int]]]:
    """Makes the result of an alltoall with splits: the output, or `result` where memory was given, and the rows received."""

    def output_and_splits(handle: Handle) -> tuple[Any, list[int]]:
        return (one_output(handle) if result is None else result), handle.received_splits()

    return output_and_splits
