"""What all ranks begin with: parameters, the optimizer's state, and any Python object of rank 0."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, Union

import torch

from .. import _core
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from . import ops
from .options import AnySet, name_of, set_id_of
from .waiting import wait_for

try:
    _pickler: Any = importlib.import_module("cloudpickle")
except ImportError:  # functions of the main program cannot travel then
    _pickler = pickle

_WORLD = global_process_set


def broadcast_parameters(
    params: Union[Mapping[str, torch.Tensor], Iterable[tuple[str, torch.Tensor]]],
    root_rank: int,
    *,
    process_set: AnySet = _WORLD,
) -> None:
    """Gives all ranks the parameters of `root_rank`, in place.

    Args:
        params: ``model.state_dict()`` or ``model.named_parameters()``: the same names, shapes and dtypes on all
            ranks. Memory formats may differ. None in place of a tensor is passed over.
    """
    if not isinstance(params, Mapping):
        params = list(params)
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in params):
            raise InvalidArgumentError("broadcast_parameters: params must be a state_dict or named parameters")
        params = dict(params)
    number = set_id_of(process_set)
    broadcast_all({f"broadcast.{name}": tensor for name, tensor in params.items() if tensor is not None}, root_rank, number)


def broadcast_all(tensors: Mapping[str, torch.Tensor], root_rank: int, process_set: int) -> None:
    """Broadcasts tensors of any memory format in place, by their full names, all at once."""
    waiting = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise InvalidArgumentError(f"'{name}' is a {type(tensor).__name__}, no torch.Tensor")
        plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        compact = plain.contiguous()
        waiting.append((ops.submit_broadcast(name, compact, True, root_rank, process_set), plain, compact))
    for handle, plain, compact in waiting:
        wait_for(handle)
        if plain.data_ptr() != compact.data_ptr():
            plain.copy_(compact)


# ---- objects ----


def _bytes_of(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(_pickler.dumps(obj)), dtype=torch.uint8)


def _object_of(data: torch.Tensor) -> Any:
    received = bytearray(data.numel())
    torch.frombuffer(received, dtype=torch.uint8).copy_(data)
    return pickle.loads(received)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Any:
    """The object of `root_rank` on every rank. It travels as a pickle, between ranks that trust each other.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed. Only that of `root_rank` matters.

    Returns:
        the object; on `root_rank` the very same.
    """
    number = set_id_of(process_set)
    base = name_of("broadcast_object", name, number)
    is_root = _core.rank() == root_rank
    data = _bytes_of(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([data.numel()])
    wait_for(ops.submit_broadcast(f"{base}.length", length, True, root_rank, number, wait_follows=True))
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    wait_for(ops.submit_broadcast(f"{base}.data", data, True, root_rank, number, wait_follows=True))
    return obj if is_root else _object_of(data)


def allgather_object(obj: Any, name: Optional[str] = None, *, process_set: AnySet = _WORLD) -> list[Any]:
    """The list of all ranks' objects, in the order of the ranks. They travel as ``broadcast_object``'s does."""
    number = set_id_of(process_set)
    base = name_of("allgather_object", name, number)
    data = _bytes_of(obj)
    waiting = [
        ops.submit_allgather(f"{base}.lengths", torch.tensor([data.numel()]), number),
        ops.submit_allgather(f"{base}.data", data, number),
    ]
    lengths, all_data = (wait_for(handle) for handle in waiting)
    return [_object_of(part) for part in all_data.split(lengths.tolist())]


# ---- the optimizer's state ----


class _Described(NamedTuple):
    """A tensor of the state, whose data follows under its name."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool

    def empty(self, like: Optional[torch.Tensor]) -> torch.Tensor:
        device = "cpu" if self.on_host or like is None else like.device
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def _without_tensors(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """`value` with descriptions in the place of tensors, which are put into `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return _Described(name, tuple(value.shape), value.dtype, value.device.type == "cpu")
    if isinstance(value, dict):
        return {key: _without_tensors(each, f"{name}.{key}", tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_without_tensors(each, f"{name}.{i}", tensors) for i, each in enumerate(value))
    return value


def _with_tensors(value: Any, like: Optional[torch.Tensor], tensors: dict[str, torch.Tensor]) -> Any:
    """The inverse, with new tensors, which are put into `tensors`."""
    if isinstance(value, _Described):
        return tensors.setdefault(value.name, value.empty(like))
    if isinstance(value, dict):
        return {key: _with_tensors(each, like, tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(each, like, tensors) for each in value)
    return value


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Gives all ranks the optimizer's state and its groups' settings of `root_rank`, such as after a checkpoint was loaded.

    The other ranks' optimizers need no state of their own, but the same parameters in the same groups. dtypes stay what
    they are on `root_rank`.

    Args:
        model: accepted for Horovod's sake, and not needed.

    Raises:
        InvalidArgumentError: the optimizer is an LBFGS, whose state has no fixed form, or has other parameters than
            that of `root_rank`.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgumentError("broadcast_optimizer_state: the state of torch.optim.LBFGS cannot be broadcast")
    mine = optimizer.state_dict()
    sent: dict[str, torch.Tensor] = {}
    said = _without_tensors(mine, "broadcast.optimizer", sent)
    said = broadcast_object(said, root_rank, "optimizer_state")
    if _core.rank() != root_rank:
        sent = {}
        _install(optimizer, mine, said, sent)
    broadcast_all(sent, root_rank, 0)


def _install(
    optimizer: torch.optim.Optimizer, mine: dict[str, Any], said: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    """Makes the optimizer what the root's is, with tensors whose data is still to come."""
    sizes = [len(group["params"]) for group in said["param_groups"]]
    if sizes != [len(group["params"]) for group in mine["param_groups"]]:
        raise InvalidArgumentError(
            f"broadcast_optimizer_state: this rank's optimizer has groups of "
            f"{[len(group['params']) for group in mine['param_groups']]} parameters, the root's of {sizes}"
        )
    parameters: dict[Any, torch.Tensor] = {}
    for group, theirs in zip(optimizer.param_groups, said["param_groups"]):
        parameters.update(zip(theirs["params"], group["params"]))
        like = group["params"][0] if group["params"] else None
        group.update({key: _with_tensors(value, like, tensors) for key, value in theirs.items() if key != "params"})
    optimizer.state.clear()
    for key, state in said["state"].items():
        parameter = parameters.get(key)
        optimizer.state[key if parameter is None else parameter] = _with_tensors(state, parameter, tensors)
