"""Torch's Work, which a call returns, over the handles of its operations.

On a CUDA device ``wait`` makes the current stream wait. The host waits only until all ranks have called and
the operation is handed to the device. A future is complete from then on: PyTorch makes a stream wait for its
tensors, as for every future of a device. The next wait of any work, or the group's end, raises a later
failure.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch._C._distributed_c10d import Work as TorchWork

from ... import _core
from ...errors import InvalidArgumentError, StillPendingError
from ..device_streams import wait_enqueued, make_stream_wait
from . import flight_recorder
from .completion import Completer
from .profile import Range

__all__ = ["Part", "Work"]

# The C++ parts of torch before 2.4 hold a Work without its Python object. If that object is gone, they wait
# for ever.
_KEPT_FOR_OLD_TORCH = 256
_kept: deque[Any] | None = None
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 4):
    _kept = deque(maxlen=_KEPT_FOR_OLD_TORCH)


# Torch's own variable, by which programs request that wait() returns only when the data is there.
_BLOCKS = os.environ.get("TORCH_NCCL_BLOCKING_WAIT", os.environ.get("NCCL_BLOCKING_WAIT", "0")) == "1"


class Part(NamedTuple):
    """The operations of a call, what it writes, and a function that moves copies back."""

    handles: list[_core.Handle]
    outputs: list[Any]
    finish: Callable[[], None] | None = None


# Looked up once: a work is made in each call.
_initialize, _make_lock = TorchWork.__init__, threading.Lock


def _devices_of(handles: list[_core.Handle]) -> Sequence[int]:
    """Returns the indices of the CUDA devices of some operations, ascending."""
    if len(handles) == 1 and handles[0].cuda_device < 0:
        return ()
    return sorted({each.cuda_device for each in handles if each.cuda_device >= 0})


class Work(TorchWork):
    """A call. It is pending until its handles have completed and `finish` has moved copies back.

    `limit` is the default limit of ``wait`` in seconds; None: without limit. The runtime keeps the tensors
    alive until the end, so a program need not keep the Work.
    """

    # Attributes of the class, because most works need none of them.
    _future: Any = None
    _done: Any = None
    _range: Range | None = None
    _begin = 0.0
    _milliseconds: float | None = None
    # For a message that is received: returns the sender, a group rank, once the message is there.
    source: Callable[[], int] | None = None

    def __init__(
        self,
        call: str,
        part: Part,
        completer: Completer,
        limit: float | None = None,
    ) -> None:
        _initialize(self)
        self._call = call
        self._handles, self._outputs, self._finish = part
        self._completer = completer
        self._limit = limit
        self._devices = _devices_of(part.handles)
        self._lock = _make_lock()
        if _kept is not None:
            _kept.append(self)

    # ---- waiting ----

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the call. With a `timeout` it returns when the data is there, also on a CUDA device.

        Raises:
            StillPendingError: a timeout; it is a TimeoutError.
            DabkeError: the operation has failed.
        """
        try:
            self._complete(timeout)
        except Exception as error:
            flight_recorder.note_failure(error)
            raise
        finally:
            # The profiler may stop before the group's thread ends the range.
            if self._range is not None and self.has_run():
                self._range.end()
        return True

    def _complete(self, timeout: timedelta | None = None) -> None:
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        limit = seconds if seconds > 0 else self._limit
        if self._devices and seconds <= 0 and not _BLOCKS:
            is_done = make_stream_wait(self._handles, limit)
        else:
            # Without a limit the waiting thread can run the operation itself.
            is_done = all(handle.wait(limit) for handle in self._handles)
        if not is_done:
            raise StillPendingError(
                f"backend dabke: Timed out waiting {(limit or 0) * 1000:g}ms for {self._call}. "
                "The call is still pending: not all of its ranks have made it (timeout)"
            )
        self._put_in_place()

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def _put_in_place(self) -> None:
        if self._finish is None:
            return
        # A second thread waits here until the first has moved the data.
        with self._lock:
            if self._finish is not None:
                self._finish()
                self._finish = None

    def as_part(self) -> Part:
        """Returns this work as a part of another, whose wait finishes both."""
        return Part(self._handles, self._outputs, self._put_in_place)

    # ---- asking ----

    def is_completed(self) -> bool:
        """Returns True if the call has completed, with success or failure."""
        if not self.has_run():
            return False
        if self._range is not None:
            self._range.end()
        if self.exception() is None:
            self._put_in_place()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Returns the error of a completed operation, or None."""
        for handle in self._handles:
            if handle.poll():
                try:
                    handle.wait()
                except Exception as error:
                    return error
        return None

    def result(self) -> list[Any]:
        """Returns the tensors that the call has written."""
        return self._outputs

    def source_rank(self) -> int:
        if self.source is None:
            raise InvalidArgumentError("this work is not of a recv, so it has no source rank")
        return self.source()

    def sender(self) -> int:
        """Returns the world rank that has sent the message."""
        return self._handles[0].sender()

    _source_rank = source_rank

    def _get_duration(self) -> float:
        """Returns how long the call took from its submit to its end, in milliseconds.

        Raises:
            InvalidArgumentError: the call has not ended, or came before ``_enable_collectives_timing``.
        """
        if self._milliseconds is None:
            raise InvalidArgumentError(
                "the duration of this call is unknown: call _enable_collectives_timing of the group before "
                "it, and wait for its future"
            )
        return self._milliseconds

    # ---- futures ----

    def get_future(self) -> Any:
        """Returns a future of the tensors, which the group's own thread completes.

        Its error is a RuntimeError with the operation's whole text, because torch's C++ futures cannot hold a
        Python exception.
        """
        with self._lock:
            if self._future is None:
                # The future's callbacks have streams of their own. wait() makes these wait for the operation.
                devices: list[Any] = [torch.device("cuda", index) for index in self._devices]
                self._done = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
                # A future fails in C++, too, only if it is made by `then` with a function that raises.
                self._future = self._done.then(self._outcome)
                fresh = True
            else:
                fresh = False
        if fresh:
            if self.is_completed():
                self.complete_future()
            else:
                self._completer.add(self)
        return self._future

    def get_future_result(self) -> Any:
        """Returns a future of a ``WorkResult``. It has no error."""
        results = getattr(torch._C._distributed_c10d, "WorkResult")  # torch's type stubs lack it
        self.get_future()

        def result(_: Any) -> int:
            return int(results.SUCCESS if self.exception() is None else results.COMM_ERROR)

        return self._done.then(result)

    def show_in_profile(self, range: Range) -> None:
        """Takes a range of PyTorch's profiler, which ends with the work."""
        self._range = range
        self.get_future()

    def measure(self) -> None:
        """Measures how long the work takes from now."""
        self._begin = time.perf_counter()
        self.get_future()

    def complete_future(self) -> None:
        """Completes the future. Called after the operation has completed."""
        if self._range is not None:
            self._range.end()
        if self._begin:
            self._milliseconds = (time.perf_counter() - self._begin) * 1000
        self._done.set_result(None)

    def has_run(self) -> bool:
        """Returns True if the operation has ended, with success or failure."""
        return all(handle.poll() for handle in self._handles)

    def wait_quietly(self) -> None:
        """Waits without raising, for the thread that completes futures: the futures hold the error."""
        try:
            if self._devices:
                wait_enqueued(self._handles)
                return
            for handle in self._handles:
                handle.wait()
        except Exception:
            pass

    def _outcome(self, _: Any) -> list[Any]:
        try:
            self._complete()
        except Exception as error:
            flight_recorder.note_failure(error)
            raise
        return self._outputs
