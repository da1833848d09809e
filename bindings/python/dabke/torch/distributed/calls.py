"""The base of a group's collectives: its set, its options, its names, and its Works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ... import _core, epochs
from ...errors import InvalidArgumentError
from ...reduce_ops import Sum
from ..device_streams import stream_of
from ..options import options_of
from ..tensors import descriptor_of
from .completion import Completer
from .flight_recorder import GroupFacts
from .names import Names
from .profile import Range, is_on
from .reduce_ops import Reduction
from .tensors import as_movable
from .work import Part, Work

__all__ = ["Calls", "Part", "all_of", "merged"]

Submit = Callable[..., _core.Handle]
Finish = Callable[[], None]
Item = TypeVar("Item")

# Torch gives every group a limit. This default does not come from the user.
_DEFAULT_TIMEOUT = dist.constants.default_pg_timeout

# The names that torch's own backends use in a profile.
_TITLES = {"allreduce": "all_reduce", "recv from any rank": "recvAnySource"}


class Calls:
    """The calls of a process set. `world_ranks` are its members, in the order of their group ranks."""

    def prepare(
        self,
        process_set: int,
        world_ranks: Sequence[int],
        rank: int,
        timeout: timedelta,
        label: Callable[[], str],
    ) -> None:
        self._process_set = process_set
        self._epoch = epochs.epoch_changes()
        self._world_ranks = list(world_ranks)
        self._members = len(self._world_ranks)
        by_world_rank = sorted(range(self._members), key=self._world_ranks.__getitem__)
        self._set_order = None if by_world_rank == list(range(self._members)) else by_world_rank
        self._set_rank = by_world_rank.index(rank)
        self._rank = rank
        self._names = Names(label)
        self._completer = Completer()
        self._message_completer = Completer(in_order=False)
        self._coalesced: list[Work] | None = None
        self._is_timed = False
        self._options_of_messages: _core.Options | None = None
        self._facts: GroupFacts | None = None  # the recorder's
        self._limit_at(timeout)

    def _limit_at(self, timeout: timedelta) -> None:
        # A wait without a limit is faster, and the stall report names operations that wait for ever.
        self._limit = None if timeout >= _DEFAULT_TIMEOUT else timeout.total_seconds()

    def _limit_of(self, opts: Any, timeout: Any) -> float | None:
        """Returns the seconds after which a wait for a call ends. The call's own limit comes first."""
        wanted = getattr(opts, "timeout", None) if timeout is None else timeout
        if not isinstance(wanted, timedelta) or wanted <= timedelta(0):
            return self._limit
        return wanted.total_seconds()

    def _with(
        self, like: torch.Tensor | None = None, op: int = int(Sum), factor: float = 1.0, root: int = 0
    ) -> _core.Options:
        """Returns compiled options, which are made once.

        `root` is a group rank; the runtime's roots are world ranks. `like` is a tensor on the operation's
        device. The operation runs after the work on the caller's current stream of that device.
        """
        options = options_of(
            self._set_now(),
            op,
            factor,
            root_rank=self._world_ranks[root],
            call_sequence=self._names.call_sequence(),
        )
        return options.core if like is None else options.on_stream(stream_of(like))

    def _with_reduction(self, reduction: Reduction, like: torch.Tensor) -> _core.Options:
        return self._with(like, reduction.op, reduction.factor)

    def _with_splits(self, splits: Sequence[int], like: torch.Tensor) -> _core.Options:
        rows = [int(each) for each in splits]
        options = options_of(self._set_now(), call_sequence=self._names.call_sequence())
        return options.with_splits(rows, stream_of(like))

    def _in_set_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """Returns one item for each member in the order of the process set, by world ranks."""
        return items if self._set_order is None else [items[member] for member in self._set_order]

    def _parts_in_set_order(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Returns equal parts of a compact tensor, one for each member, in the order of the process set."""
        parts = tensor.detach().view(self._members, tensor.numel() // self._members).unbind()
        return list(self._in_set_order(parts))

    def _is_current(self) -> bool:
        """Returns False once the ranks of the job have changed."""
        return self._epoch == epochs.epoch_changes()

    def _set_now(self) -> int:
        if not self._is_current():
            raise InvalidArgumentError(
                "the ranks of the job have changed since this process group was made; call "
                "destroy_process_group and init_process_group, then make groups and DistributedDataParallel "
                "anew"
            )
        return self._process_set

    def _submit_message(
        self,
        function: Submit,
        name: str,
        memory: torch.Tensor,
        member: int | None,
        tag: int = 0,
        in_sequence: bool = False,
        waited: bool = False,
    ) -> _core.Handle:
        """Submits one end of a message. The other end is a group rank; None for a receive from any member.

        A message that is `in_sequence` is a call that all members make at the same point.
        """
        moved = as_movable(memory)
        rank = _core.ANY_RANK if member is None else self._world_ranks[member]
        if in_sequence:
            options = self._with(moved)
        elif moved.is_cpu:
            options = self._message_options()
        else:
            options = options_of(self._set_now()).on_stream(stream_of(moved))
        return function(name, descriptor_of(moved), rank, options, tag, None, waited and moved.is_cpu)

    def _message_options(self) -> _core.Options:
        """Returns the options of messages whose tensors are on the host, and which are in no sequence."""
        if self._options_of_messages is None or self._epoch != epochs.epoch_changes():
            self._options_of_messages = options_of(self._set_now()).core
        return self._options_of_messages

    def _submit(
        self,
        function: Submit,
        call: str,
        input: torch.Tensor,
        output: torch.Tensor | None,
        options: _core.Options,
        shape: tuple[int, ...],
        opts: Any = None,
    ) -> _core.Handle:
        """Submits one operation. `shape` becomes part of its name, so it must be the same on all members."""
        source = descriptor_of(input)
        target = None if output is None else descriptor_of(output)
        waited = input.is_cpu and self._is_waited_for(opts)
        return self._names.submit(
            call, input.dtype, shape, lambda name: function(name, source, target, options, None, waited)
        )

    def _is_waited_for(self, opts: Any) -> bool:
        """Returns True if torch waits for the work as soon as it has it: in a call without async_op.

        Then no other thread need be woken, which takes longer than a small operation.
        """
        return getattr(opts, "asyncOp", True) is False and self._coalesced is None

    def _work(
        self,
        call: str,
        part: Part,
        inputs: Sequence[torch.Tensor] = (),
        opts: Any = None,
        timeout: Any = None,
    ) -> Work:
        work = Work(call, part, self._completer_of(call), self._limit_of(opts, timeout))
        if is_on():
            work.show_in_profile(Range(f"dabke:{_TITLES.get(call, call)}", inputs))
        if self._is_timed:
            work.measure()
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _completer_of(self, call: str) -> Completer:
        return self._completer

    def _check_count(self, call: str, what: str, count: int) -> None:
        if count != self._members:
            raise InvalidArgumentError(
                f"{call}: got {count} {what}, but the group has {self._members} members"
            )


def all_of(finishes: Sequence[Finish | None]) -> Finish | None:
    """Returns a function that calls all functions in order; None if there are none."""
    wanted = [each for each in finishes if each is not None]
    if not wanted:
        return None

    def finish() -> None:
        for each in wanted:
            each()

    return finish


def merged(parts: Sequence[Part]) -> Part:
    """Returns one part over several."""
    return Part(
        [handle for part in parts for handle in part.handles],
        [output for part in parts for output in part.outputs],
        all_of([part.finish for part in parts]),
    )
