"""Handles of asynchronous operations, and their results."""

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
    """Returns True if the operation has completed, with success or an error. Never waits.

    Args:
        handle: the handle that an asynchronous collective has returned.
    """
    return handle.poll()


def wait(handle: Handle, timeout: float | None = None) -> bool:
    """Waits for the operation.

    Ctrl-C ends the wait, and the operation goes on. One exception: if this rank itself runs the operation,
    the job ends for all ranks.

    Args:
        handle: the handle that an asynchronous collective has returned.
        timeout: in seconds; None: without limit.

    Returns:
        True if the operation has completed; False after a timeout.

    Raises:
        DabkeError: the operation has failed; the class shows the kind of failure (``dabke.errors``).
    """
    return handle.wait(timeout)


def wait_stream(handle: Handle, stream: int, timeout: float | None = None) -> bool:
    """Makes a CUDA stream wait for the result of a tensor on its device.

    Work that is launched on the stream after this call reads the result.

    The call itself waits only until all ranks have submitted and the operation is handed to the device. For a
    tensor on the host it waits like ``wait``. Only ``wait`` and ``synchronize`` raise errors that come after
    its return.

    Args:
        handle: the handle that an asynchronous collective has returned.
        stream: the address of a ``cudaStream_t``, such as ``torch.cuda.Stream.cuda_stream`` or CuPy's
            ``Stream.ptr``. 0 and 1 are the legacy default stream, 2 is the stream of the calling thread.
        timeout: in seconds; None: without limit.

    Returns:
        True if the stream waits or the operation has completed; False after a timeout.

    Raises:
        DabkeError: the operation has failed before it was handed to the device.
    """
    return handle.wait_stream(stream, timeout)


def synchronize(handle: Handle, timeout: float | None = None) -> Any:
    """Waits for the operation like ``wait``, and returns its result.

    Args:
        handle: the handle that an asynchronous collective has returned.
        timeout: in seconds; None: without limit.

    Returns:
        the result of the blocking form.

    Raises:
        StillPendingError: a timeout. It is a ``TimeoutError``, and the handle can be waited for again.
        DabkeError: the operation has failed; the class shows the kind of failure (``dabke.errors``).
    """
    if not handle.wait(timeout):
        raise StillPendingError(
            f"the operation is still pending after {timeout} s; it can be waited for again"
        )
    return result_of(handle)


def result_of(handle: Handle) -> Any:
    """Returns the result of a completed operation: `handle.result`, or its value if it is a function."""
    result = handle.result
    return result(handle) if type(result) is FunctionType else result


# The results of handles for which the caller has given no memory.


def one_output(handle: Handle) -> Array:
    """Returns the only output, as an array over the runtime's own memory."""
    array: Array = as_array(handle.output(0))
    return array


def all_outputs(handle: Handle) -> list[Array]:
    """Returns the outputs of a group, as arrays over the runtime's own memory."""
    return [as_array(handle.output(i)) for i in range(handle.output_count)]


def last_joined_rank(handle: Handle) -> int:
    """Returns the world rank that joined last."""
    return handle.last_joined_rank()


def with_splits(result: Any) -> Callable[[Handle], tuple[Any, list[int]]]:
    """Returns the function for the result of an alltoall with splits: the output, and the numbers of rows.

    The output is `result`, or the runtime's own memory if that is None.
    """

    def output_and_splits(handle: Handle) -> tuple[Any, list[int]]:
        return (one_output(handle) if result is None else result), handle.received_splits()

    return output_and_splits
