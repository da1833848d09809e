"""A group's send and recv: messages between two members.

The n-th send to a member matches that member's n-th recv from the sender, within the group and the tag. A
tensor is sent as its elements in one dimension, so only their number and dtype must match, not the shape.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
import torch.distributed as dist

from ... import _core
from ...errors import DabkeError
from ..tensors import DTYPES
from . import flight_recorder
from .alltoalls import Alltoalls
from .calls import Finish, Submit
from .completion import Completer
from .profile import is_on
from .tensors import flattened, is_ready, only_tensor, output_buffer
from .work import Part, Work

__all__ = ["Messages"]

# Torch's blocking functions, each with its function that calls the group.
_BLOCKING = {
    inspect.unwrap(within).__code__: inspect.unwrap(call).__code__
    for call, within in ((dist.send, dist.isend), (dist.recv, dist.irecv))
}
_CALLERS = 3  # from here to torch: a helper, and the method of the group


def _is_waited_for() -> bool:
    """Returns True if torch's blocking ``send`` or ``recv`` has called the group."""
    try:
        within: Any = sys._getframe(_CALLERS)
    except ValueError:
        return False
    if within.f_code not in _BLOCKING:
        within = within.f_back  # in a group of several backends, one more function is between
    caller = None if within is None else within.f_back
    return caller is not None and _BLOCKING.get(within.f_code) is caller.f_code


class _Waited:
    """A message for torch's blocking functions, which only wait for it. A Work takes longer to make."""

    __slots__ = ("_handle", "_record", "_sender")

    def __init__(self, handle: _core.Handle, record: list[Any] | None, sender: int | None) -> None:
        self._handle, self._record, self._sender = handle, record, sender

    def wait(self) -> bool:
        try:
            self._handle.wait()
        except BaseException as error:  # also one that interrupts the wait
            if self._record is not None:
                flight_recorder.poll(self._record)
            flight_recorder.note_failure(error)
            raise
        if self._record is not None:
            flight_recorder.end(self._record, self._sender)
        return True


class Messages(Alltoalls):
    def _completer_of(self, call: str) -> Completer:
        is_message = call == "send" or call.startswith("recv")
        return self._message_completer if is_message else self._completer

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        return self._waited("send", _core.send, tensors, dst, tag) or self._send(tensors, dst, tag)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        return self._waited("recv", _core.recv, tensors, src, tag) or self._recv(tensors, src, tag)

    def _waited(self, title: str, submit: Submit, tensors: Any, peer: int, tag: int) -> _Waited | None:
        """Submits a message the short way. Returns None if the call is not one of the most frequent ones."""
        if not _is_waited_for() or self._coalesced is not None or self._limit is not None:
            return None
        tensor = only_tensor(title, tensors)
        if not is_ready(tensor) or self._is_timed or is_on():
            return None
        options, rank = self._message_options(), self._world_ranks[peer]
        shape = tensor.shape
        flat = shape if len(shape) == 1 else (tensor.numel(),)
        memory = _core.Tensor(tensor.data_ptr(), flat, DTYPES[tensor.dtype], owner=tensor)
        try:
            # The waiting thread does the work, so that no other one need be woken.
            handle = submit(self._names.of_messages(), memory, rank, options, tag, None, True)
        except DabkeError as error:
            flight_recorder.note_failure(error)
            raise
        record = None
        if flight_recorder.is_on:
            facts = self._facts or flight_recorder.group_facts(self)
            inputs, outputs = ((shape,), ()) if title == "send" else ((), (shape,))
            number, dtype, message = next(facts.messages), tensor.dtype, (peer, tag)
            record = flight_recorder.record(
                self, title, number, inputs, outputs, dtype, message, [handle], _CALLERS + 1, is_polled=False
            )
        return _Waited(handle, record, rank if title == "recv" else None)

    def _send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        tensor = only_tensor("send", tensors)
        return self._message("send", _core.send, flattened("send", tensor), dst, tag, tensor, None)

    def _recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        tensor = only_tensor("recv", tensors)
        target, finish = output_buffer("recv", tensor)
        work = self._message("recv", _core.recv, target, src, tag, tensor, finish)
        work.source = lambda: src
        return work

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receives from the first member that sends."""
        tensor = only_tensor("recv", tensors)
        target, finish = output_buffer("recv", tensor)
        work = self._message("recv from any rank", _core.recv, target, None, tag, tensor, finish)
        work.source = lambda: self._world_ranks.index(work.sender())
        return work

    def _message(
        self,
        call: str,
        submit: Submit,
        memory: torch.Tensor,
        peer: int | None,
        tag: int,
        tensor: torch.Tensor,
        finish: Finish | None,
    ) -> Work:
        handle = self._submit_message(submit, self._names.of_messages(), memory, peer, tag)
        return self._work(call, Part([handle], [tensor], finish), [tensor])
