"""A group's send and recv: messages between two members.

The n-th send to a member matches that member's n-th recv from the sender, within the group and the tag. A
tensor is sent as its elements in one dimension, so only their number and dtype must match, not the shape.
"""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from .alltoalls import Alltoalls
from .calls import Finish, Submit
from .completion import Completer
from .tensors import flattened, only_tensor, output_buffer
from .work import Part, Work

__all__ = ["Messages"]


class Messages(Alltoalls):
    def _completer_of(self, call: str) -> Completer:
        is_message = call == "send" or call.startswith("recv")
        return self._message_completer if is_message else self._completer

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        tensor = only_tensor("send", tensors)
        return self._message("send", _core.send, flattened("send", tensor), dst, tag, tensor, None)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
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
