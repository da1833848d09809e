"""Groups such as "cpu:dabke,cuda:nccl", whose tensors of other devices go to other backends.

Torch takes a backend that is a ProcessGroup as the whole group and drops the other parts of the string. It
forgets a backend that stands before ours. So the part of this backend is put first, and the group itself
makes the others: each as a group of torch's, at the first tensor of its device. Until then they need not be
installed, so one string serves machines with and without CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from .group import Group

__all__ = ["MixedGroup", "install_names", "others_of_string", "read_strings"]

# All calls with tensors; versions of torch have different ones.
_CALLS = (
    "allreduce allreduce_coalesced reduce broadcast allgather all_gather_single _allgather_base "
    "all_gather_single_coalesced allgather_into_tensor_coalesced allgather_coalesced reduce_scatter "
    "reduce_scatter_single _reduce_scatter_base reduce_scatter_single_coalesced "
    "reduce_scatter_tensor_coalesced gather scatter alltoall all_to_all_single alltoall_base send recv "
    "recv_anysource"
).split()

_latest = threading.local()
_naming = threading.local()


def read_strings(own: str) -> None:
    """Lets torch put `own` first in what it reads from a backend string. Called once."""
    config = getattr(dist.distributed_c10d, "BackendConfig", None)
    if config is None:
        return  # before torch 2.0, which has one backend for all devices
    init = config.__init__

    @functools.wraps(init)
    def read(self: Any, *arguments: Any, **more: Any) -> None:
        init(self, *arguments, **more)
        whole = self.device_backend_map
        ours = {device: name for device, name in whole.items() if name == own}
        self.device_backend_map = {**ours, **whole}
        _latest.others = {device: str(name) for device, name in whole.items() if ours and name != own}

    config.__init__ = read


def install_names() -> None:
    """Lets this module name the groups that it makes. Called once.

    Torch would derive the name from the number of groups that this rank is in, which other ranks do not know.
    """
    module = dist.distributed_c10d
    name_of = getattr(module, "_process_group_name", None)
    if name_of is None:
        return  # before torch 2.1, which cannot make a group among members only

    @functools.wraps(name_of)
    def name(*arguments: Any, **more: Any) -> Any:
        return getattr(_naming, "name", None) or name_of(*arguments, **more)

    module._process_group_name = name


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    _naming.name = name
    try:
        yield
    finally:
        _naming.name = None


def others_of_string() -> dict[str, str]:
    """Returns the other backends, by device type, of the string that this thread makes a group of."""
    return dict(getattr(_latest, "others", {}))


class MixedGroup(Group):
    """A group whose tensors of some devices go to other backends. `others` has their names by device type."""

    def __init__(self, others: dict[str, str], timeout: timedelta, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._others = others
        self._others_timeout = timeout
        self._groups: dict[str, Any] = {}
        self._making = threading.Lock()

    def _other_for(self, device: Any) -> Any:
        """Returns torch's group for this device, or None if its tensors are this backend's own.

        All members make it at the same call, the first with such a tensor.
        """
        kind = torch.device(device).type
        if kind not in self._others:
            return None
        with self._making:
            if kind not in self._groups:
                ranks = dist.get_process_group_ranks(self)
                # Only versions of torch with this argument make groups whose ranks do not ascend.
                order: dict[str, Any] = {} if ranks == sorted(ranks) else {"sort_ranks": False}
                with _named(f"{self._label()}/{kind}"):
                    self._groups[kind] = dist.new_group(
                        ranks,
                        timeout=self._others_timeout,
                        backend=f"{kind}:{self._others[kind]}",
                        use_local_synchronization=True,
                        **order,
                    )
            return self._groups[kind]

    @property
    def _device_types(self) -> list[torch.device]:
        own = [each for each in super()._device_types if each.type not in self._others]
        return own + [torch.device(kind) for kind in self._others if _is_there(kind) or kind in self._groups]

    def _get_backend(self, device: Any) -> Any:
        other = self._other_for(device)
        return self if other is None else other._get_backend(torch.device(device))

    def _start_coalescing(self, device: Any = None) -> None:
        other = None if device is None else self._other_for(device)
        super()._start_coalescing() if other is None else other._start_coalescing(device)

    def _end_coalescing(self, device: Any = None) -> Any:
        other = None if device is None else self._other_for(device)
        return super()._end_coalescing() if other is None else other._end_coalescing(device)

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        self._others_timeout = timeout
        for group in self._groups.values():
            group.set_timeout(timeout)

    def shutdown(self) -> None:
        groups, self._groups = self._groups, {}
        try:
            super().shutdown()
        finally:
            # With the world group, torch ends all groups itself.
            if not self._is_world:
                for group in groups.values():
                    dist.destroy_process_group(group)

    def abort(self) -> None:
        """Aborts the job, and the other backends of this group."""
        try:
            super().abort()
        finally:
            for group in self._groups.values():
                getattr(group, "abort", group.shutdown)()

    def split_group(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            "a group of several backends has no split_group; use torch.distributed.new_group"
        )


def _is_there(kind: str) -> bool:
    """True if this machine has such a device, such as "cuda"."""
    return bool(getattr(getattr(torch, kind, None), "is_available", bool)())


def _delegated(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def call(self: Any, *arguments: Any, **more: Any) -> Any:
        tensor = _first_tensor(arguments)
        other = None if tensor is None else self._other_for(tensor.device)
        return own(self, *arguments, **more) if other is None else getattr(other, name)(*arguments, **more)

    return call


def _first_tensor(values: Any) -> torch.Tensor | None:
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)):
            found = _first_tensor(value)
            if found is not None:
                return found
    return None


for _name in _CALLS:
    setattr(MixedGroup, _name, _delegated(_name, getattr(Group, _name)))
