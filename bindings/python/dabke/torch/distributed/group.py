"""A process group of torch.distributed over a process set.

The group is a ProcessGroup, and not a Backend within one, because Python can derive only from ProcessGroup.
other_backends.py has the groups that use other backends for some devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch._C._distributed_c10d import ProcessGroup

from ... import _core
from ...errors import DabkeError
from ..device_streams import wait_all
from . import job_owner
from .call_recording import record_calls
from .calls import merged
from .capabilities import Capabilities
from .messages import Messages
from .monitored_barrier import MonitoredBarrier
from .sets import set_of
from .work import Part, Work

__all__ = ["Group"]

_OTHERS_PATIENCE_SECONDS = 60.0


@record_calls
class Group(Capabilities, Messages, ProcessGroup):  # type: ignore[misc]
    """A group of torch.distributed. `process_set` is the runtime's number of its set, 0 for the world."""

    def __init__(
        self,
        rank: int,
        size: int,
        timeout: timedelta,
        store: Any,
        process_set: int,
        world_ranks: Sequence[int],
        is_world: bool,
    ) -> None:
        ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]
        self.prepare(process_set, world_ranks, rank, timeout, self._label)
        self._timeout = timeout
        self._store = store
        self._monitored = MonitoredBarrier(store, rank, size)
        self._is_world = is_world
        self._sequence = 0
        self._splits = 0
        self._group_name = self._group_desc = ""

    @property
    def process_set(self) -> int:
        return self._process_set

    # ---- the methods that torch calls on a group ----

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
        """The devices that this job supports."""
        has_cuda = torch.cuda.is_available() and _core.backend_enabled("nccl")
        return [torch.device(each) for each in (["cpu", "cuda"] if has_cuda else ["cpu"])]

    def _get_backend(self, device: Any) -> Group:  # type: ignore[override]
        return self

    # The methods of ProcessGroup store these names in a backend, but this group does not have one.
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
        """Returns torch's name of the group, the same on all members.

        Torch before 2.0 does not call ``_set_group_name``, and has the name only by the group.
        """
        module = dist.distributed_c10d
        names = module._pg_names if hasattr(module, "_pg_names") else module._world.pg_names
        return str(self._group_name or names.get(self, f"set{self._process_set}"))

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._limit_at(timeout)

    def get_group_store(self) -> Any:
        return self._store

    def _enable_collectives_timing(self) -> None:
        """Lets works measure how long they run, for their `_get_duration`."""
        self._is_timed = True

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    # ---- barriers ----

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:  # type: ignore[override]
        # The runtime's own barrier counts the barriers of a set, but groups may share a set.
        byte = torch.zeros(1, dtype=torch.uint8)
        handle = self._submit(_core.allreduce, "barrier", byte, None, self._with(byte), (1,), opts)
        return self._work("barrier", Part([handle], []), (), opts, timeout)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Waits for all members, until the timeout. The error of rank 0 names the members that have not come.

        `torch.distributed.monitored_barrier` refuses backends of others before it asks the group.
        """
        if isinstance(timeout, (int, float)):
            timeout = timedelta(seconds=timeout)
        self._monitored.wait(self._timeout if timeout is None else timeout, wait_all_ranks)

    # ---- several calls as one ----

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any = None) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return self._work("coalesced", merged([work.as_part() for work in works]))

    # ---- groups made of this group ----

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Group | None:
        """Returns a group of some members, or None on the others. `ranks` are ranks of this group.

        All members call it, at the same point. `torch.distributed.split_group` first asks for a group that
        was made for a device, and for a backend that can split communicators.
        """
        self._splits += 1
        if self._rank not in ranks:
            return None
        name = group_name or f"{self._label()}.split{self._splits}.{'_'.join(map(str, ranks))}"
        world_ranks = [self._world_ranks[each] for each in ranks]
        group = Group(
            list(ranks).index(self._rank),
            len(ranks),
            self._timeout if timeout is None else timeout,
            PrefixStore(f"{name}/", self._store),
            set_of(world_ranks),
            world_ranks,
            False,
        )
        group._set_group_name(name)
        group._set_group_desc(group_desc or "")
        return group

    def merge_remote_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("backend dabke has no merge_remote_group; start a job of all ranks")

    # ---- its end ----

    def shutdown(self) -> None:
        """Ends the group. destroy_process_group calls it.

        If torch.distributed has started the job, the end of the world group also ends the job. Then all ranks
        must call it or end: when rank 0 leaves, the job is over for all. An elastic job does not end, but the
        ranks wait for each other. A subgroup's process set stays for later groups of the same ranks.

        Raises:
            DabkeError: an operation has failed after a CUDA stream was made to wait for it, and no call has
                raised it yet.
        """
        try:
            wait_all()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._is_world and self._is_current() and job_owner.is_ours():
            with contextlib.suppress(DabkeError):
                _core.barrier(self._with()).wait(_OTHERS_PATIENCE_SECONDS)
            job_owner.end_if_ours()  # this completes pending operations
        self._completer.end()
        self._message_completer.end()

    def abort(self) -> None:
        if _core.is_initialized():
            _core.abort(f"rank {_core.rank()} called abort of a process group")
