"""Torch's Work, which a call returns, over the handles of its operations.

On a CUDA device ``wait`` makes the current stream wait, and the host waits no longer than until all ranks
have called and the operation is handed to the device. A future is complete from then on: PyTorch makes a
stream wait for what it has, as for every future of a device. What fails later is raised by the next wait of
any work, and by the group's end.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as TorchWork

from ... import _core
from ...errors import StillPendingError
from ..device_streams import wait_enqueued, make_stream_wait
from .completion import Completer

__all__ = ["Work"]

# Before torch 2.4 its C++ parts hold a Work without its Python object, and wait for ever on one that is gone.
_KEPT_FOR_OLD_TORCH = 256
_kept: deque[Any] | None = None
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 4):
    _kept = deque(maxlen=_KEPT_FOR_OLD_TORCH)


# Torch's own word for it, by which programs ask that wait() returns when the data is there.
_BLOCKS = os.environ.get("TORCH_NCCL_BLOCKING_WAIT", os.environ.get("NCCL_BLOCKING_WAIT", "0")) == "1"


class Work(TorchWork):
    """Pending until all its handles have completed and `finish`, which puts copies in their places, has run.

    `limit` is how many seconds ``wait`` has by default, without one when None. The tensors are referenced
    until done, by the runtime; a Work need not be kept.
    """

    def __init__(
        self,
        handles: list[_core.Handle],
        outputs: list[Any],
        completer: Completer,
        limit: float | None = None,
        finish: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._handles = handles
        self._outputs = outputs
        self._completer = completer
        self._limit = limit
        self._devices = sorted({each.cuda_device for each in handles if each.cuda_device >= 0})
        self._finish = finish
        self._lock = threading.Lock()
        self._future: Any = None
        self._done: Any = None
        self._profiled: Any = None
        if _kept is not None:
            _kept.append(self)

    # ---- waiting ----

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Raises the operation's error, and StillPendingError, a TimeoutError, when the time was up.

        With a `timeout` it comes back when the data is there, on a CUDA device too.
        """
        try:
            self._complete(timeout)
        finally:
            # The end of its range, or the profiler may be gone before its thread has come to it.
            if self._profiled is not None and all(handle.poll() for handle in self._handles):
                self._end_range()
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
                f"a collective of backend dabke is still pending after {limit} s: not all ranks have called it"
            )
        self._put_in_place()

    def synchronize(self) -> None:
        self.wait()

    def _put_in_place(self) -> None:
        if self._finish is None:
            return
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()

    # ---- asking ----

    def is_completed(self) -> bool:
        """With whatever result."""
        if not all(handle.poll() for handle in self._handles):
            return False
        if self._profiled is not None and not self._profiled.done():
            return False
        if self.exception() is None:
            self._put_in_place()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """The error of a completed operation."""
        for handle in self._handles:
            if handle.poll():
                try:
                    handle.wait()
                except Exception as error:
                    return error
        return None

    def result(self) -> list[Any]:
        """The tensors that have been written."""
        return self._outputs

    def source_rank(self) -> int:
        raise NotImplementedError("backend dabke has no recv; use a group of backend gloo for it")

    _source_rank = source_rank

    # ---- futures ----

    def get_future(self) -> Any:
        """A future of the tensors, completed by the group's own thread.

        Its error is a RuntimeError with the operation's whole text: torch's C++ futures carry no Python
        exception.
        """
        with self._lock:
            if self._future is None:
                # Its callbacks have streams of their own, which wait for the operation as wait() makes them.
                devices: list[Any] = [torch.device("cuda", index) for index in self._devices]
                self._done = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
                # A future fails in C++ as well only if it is made by `then`, of a function that raises.
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

    def show_in_profile(self, title: str) -> None:
        """A range of PyTorch's profiler, from now until the work is done. Before anybody else has the Work."""
        with torch.autograd.profiler.record_function(title) as record:
            self._future = self._profiled = record._call_end_callbacks_on_future(self.get_future())

    def _end_range(self) -> None:
        try:
            self._profiled.wait()
        except Exception:
            pass  # the operation's, which wait() raises

    def complete_future(self) -> None:
        """Completes the future. The operation has completed."""
        self._done.set_result(None)

    def wait_quietly(self) -> None:
        """Waits and raises nothing, for the thread that completes futures: these carry the error."""
        try:
            if self._devices:
                wait_enqueued(self._handles)
                return
            for handle in self._handles:
                handle.wait()
        except Exception:
            pass

    def _outcome(self, _: Any) -> list[Any]:
        self._complete()
        return self._outputs
