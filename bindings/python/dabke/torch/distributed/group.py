"""A process group of torch.distributed over a process set.

It is a ProcessGroup, and not a Backend under one, because only that class can be derived from in Python. So a
group has this backend for all its tensors: "cpu:dabke,cuda:nccl" is not possible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from ... import _core
from ...errors import DabkeError
from ..device_streams import wait_all
from . import job_owner
from .alltoalls import Alltoalls
from .work import Work

__all__ = ["Group"]

_OTHERS_PATIENCE_SECONDS = 60.0


class Group(Alltoalls, ProcessGroup):  # type: ignore[misc]
    """Made by torch.distributed; `process_set` is its set's number in the runtime, 0 for the world."""

    def __init__(
        self,
        rank: int,
        size: int,
        timeout: timedelta,
        process_set: int,
        world_ranks: Sequence[int],
        is_world: bool,
    ) -> None:
        ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]
        self.prepare(process_set, world_ranks, rank, timeout, self._label)
        self._is_world = is_world
        self._sequence = 0
        self._group_name = self._group_desc = ""

    @property
    def process_set(self) -> int:
        return self._process_set

    # ---- what torch asks of a group ----

    def name(self) -> str:
        return "dabke"

    getBackendName = _get_backend_name = name

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._members

    rank, size = getRank, getSize

    @property
    def _device_types(self) -> list[torch.device]:
        """As this job serves them."""
        has_cuda = torch.cuda.is_available() and _core.backend_enabled("nccl")
        return [torch.device(each) for each in (["cpu", "cuda"] if has_cuda else ["cpu"])]

    # What torch asks of a group that was made for one device, which is no more than a hint here.
    supports_splitting = False

    def _get_backend(self, device: Any) -> Group:  # type: ignore[override]
        return self

    # The class's own keep these with a backend, which there is none of.
    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    def _set_group_desc(self, text: str) -> None:
        self._group_desc = text

    def getGroupName(self) -> str:
        return self._group_name

    def getGroupDesc(self) -> str:
        return self._group_desc

    setGroupName, setGroupDesc = _set_group_name, _set_group_desc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def _label(self) -> str:
        """Torch's own name of the group, the same on all its members; before torch 2.0 it gives only itself."""
        module = dist.distributed_c10d
        names = module._pg_names if hasattr(module, "_pg_names") else module._world.pg_names
        return str(self._group_name or names.get(self, f"set{self._process_set}"))

    def set_timeout(self, timeout: timedelta) -> None:
        self._limit_at(timeout)

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    # ---- barriers ----

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:  # type: ignore[override]
        return self._work("barrier", [_core.barrier(self._with())], [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier with a limit; the stall report names who is missing."""
        self.barrier().wait(timeout)

    # ---- several calls as one ----

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any = None) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return self._merged(works)

    # ---- what has no counterpart ----

    def send(self, *_: Any) -> NoReturn:
        _refuse("send")

    def recv(self, *_: Any) -> NoReturn:
        _refuse("recv")

    def recv_anysource(self, *_: Any) -> NoReturn:
        _refuse("recv from any source")

    def split_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("backend dabke has no split_group; use torch.distributed.new_group")

    def merge_remote_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("backend dabke has no merge_remote_group; start a job of all ranks")

    # ---- its end ----

    def shutdown(self) -> None:
        """Ends the group; destroy_process_group calls it. The world's ends the job, if torch.distributed has
        started it.

        All ranks come to that, or end: when rank 0 leaves, the job is over for all. A subgroup's process set
        stays for later groups of the same ranks. Raises what has failed after a CUDA stream was made to wait,
        if nothing has raised it.
        """
        try:
            wait_all()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._is_world and job_owner.is_ours():
            with contextlib.suppress(DabkeError):
                _core.barrier(self._with()).wait(_OTHERS_PATIENCE_SECONDS)
            job_owner.end_if_ours()  # which completes what is still pending
        self._completer.end()

    def abort(self) -> None:
        if _core.is_initialized():
            _core.abort(f"rank {_core.rank()} has called abort of a process group")


def _refuse(call: str) -> NoReturn:
    raise NotImplementedError(
        f"backend dabke has no {call}: its calls are collectives; make a second group for it, "
        'torch.distributed.new_group(backend="gloo")'
    )
