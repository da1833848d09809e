"""The state with which all ranks begin: parameters, the optimizer's state, and any Python object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from .. import _core
from .._frontend import objects
from .._frontend.collective_table import BROADCAST
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from .device_streams import submit
from .options import AnySet, options_of, set_id_of
from .sparse_tensors import no_rows
from .submission import submit_one
from .waiting import wait_for

_WORLD = global_process_set


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]],
    root_rank: int,
    *,
    process_set: AnySet = _WORLD,
) -> None:
    """Sends the parameters of one rank to all ranks, in place.

    Args:
        params: ``model.state_dict()`` or ``model.named_parameters()``, with the same names, shapes and dtypes
            on all ranks. Memory formats may differ. None instead of a tensor is skipped.
        root_rank: the world rank that sends, also in a process set.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Raises:
        InvalidArgumentError: `params` has another form.
        MismatchError: a shape or dtype differs between ranks; raised on all of them.
        HorovodInternalError: the job has failed.
    """
    if not isinstance(params, Mapping):
        params = list(params)
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in params):
            raise InvalidArgumentError(
                "broadcast_parameters: params must be a state_dict or named parameters"
            )
        params = dict(params)
    named = {f"broadcast.{name}": tensor for name, tensor in params.items() if tensor is not None}
    broadcast_all(named, root_rank, set_id_of(process_set))


def broadcast_all(
    tensors: Mapping[str, torch.Tensor], root_rank: int, process_set: int = _core.WORLD
) -> None:
    """Broadcasts tensors of any memory format in place, all at once. The keys are their full names."""
    options = options_of(process_set, root_rank=int(root_rank))
    waiting = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise InvalidArgumentError(f"'{name}': expected a torch.Tensor, got {type(tensor).__name__}")
        plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        compact = plain.contiguous()
        waiting.append((submit_one(BROADCAST, name, compact, options, in_place=True), plain, compact))
    for handle, plain, compact in waiting:
        wait_for(handle)
        if plain.data_ptr() != compact.data_ptr():
            plain.copy_(compact)


# ---- objects ----


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: AnySet = _WORLD
) -> Any:
    """Sends the object of one rank to every rank, as a pickle. The ranks must trust each other.

    Args:
        obj: an object that pickle can take, or cloudpickle if it is installed. Only the object of `root_rank`
            is sent.
        root_rank: the world rank that sends, also in a process set.
        name: a name like that of a tensor. Its tensors are ``broadcast_object.<name>.length`` and the like.
            None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the object; on `root_rank` `obj` itself.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it. Raised on all ranks,
            with that rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set, submit_by=submit)


def allgather_object(obj: Any, name: str | None = None, *, process_set: AnySet = _WORLD) -> list[Any]:
    """Sends the objects of all ranks to every rank. They travel as in ``broadcast_object``.

    Args:
        obj: an object that pickle can take, or cloudpickle if it is installed.
        name: as in ``broadcast_object``.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the objects, in the order of the ranks.

    Raises:
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's. Raised on all ranks,
            with that rank's text.
        HorovodInternalError: the job has failed.
    """
    return objects.allgather_object(obj, name, process_set=process_set, submit_by=submit)


# ---- the optimizer's state ----


class _TensorForm(NamedTuple):
    """The form of a tensor of the state. The tensor's data follows under its name."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool

    def empty(self, like: torch.Tensor | None) -> torch.Tensor:
        device = "cpu" if self.on_host or like is None else like.device
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def _without_tensors(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Returns `value` with forms instead of its tensors, and puts the tensors into `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return _TensorForm(name, tuple(value.shape), value.dtype, value.device.type == "cpu")
    if isinstance(value, dict):
        return {key: _without_tensors(each, f"{name}.{key}", tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_without_tensors(each, f"{name}.{i}", tensors) for i, each in enumerate(value))
    return value


def _with_tensors(value: Any, like: torch.Tensor | None, tensors: dict[str, torch.Tensor]) -> Any:
    """Returns `value` with new tensors instead of their forms, and puts the tensors into `tensors`."""
    if isinstance(value, _TensorForm):
        return tensors.setdefault(value.name, value.empty(like))
    if isinstance(value, dict):
        return {key: _with_tensors(each, like, tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(each, like, tensors) for each in value)
    return value


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Sends the optimizer's state and the settings of its groups from one rank to all ranks.

    Call it, for example, after one rank has loaded a checkpoint. The other ranks' optimizers need the same
    parameters in the same groups, but no state of their own. The dtypes are those of `root_rank`. As after
    Horovod's function, all parameters that require a gradient have one: missing gradients become zeros, which
    are sparse for SparseAdam.

    Args:
        optimizer: an optimizer of any class of torch.optim except LBFGS.
        root_rank: the world rank that sends.
        model: ignored; the argument exists because Horovod has it.

    Raises:
        InvalidArgumentError: the optimizer is an LBFGS, whose state does not have a fixed form, or its
            parameters differ from those on `root_rank`.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgumentError(
            "broadcast_optimizer_state: the state of torch.optim.LBFGS cannot be broadcast"
        )
    mine = optimizer.state_dict()
    sent: dict[str, torch.Tensor] = {}
    state = _without_tensors(mine, "broadcast.optimizer", sent)
    state = broadcast_object(state, root_rank, "optimizer_state")
    if _core.rank() != root_rank:
        sent = {}
        _install(optimizer, mine, state, sent)
    broadcast_all(sent, root_rank)
    _fill_gradients(optimizer)


def _fill_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Sets missing gradients to zeros. Programs for Horovod read gradients before the first backward pass."""
    zeros = no_rows if isinstance(optimizer, torch.optim.SparseAdam) else torch.zeros_like
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = zeros(parameter.detach())


def _install(
    optimizer: torch.optim.Optimizer,
    mine: dict[str, Any],
    roots: dict[str, Any],
    tensors: dict[str, torch.Tensor],
) -> None:
    """Installs the root's state in the optimizer, with tensors whose data is received later."""
    sizes = [len(group["params"]) for group in roots["param_groups"]]
    if sizes != [len(group["params"]) for group in mine["param_groups"]]:
        raise InvalidArgumentError(
            f"broadcast_optimizer_state: this rank's optimizer has groups of "
            f"{[len(group['params']) for group in mine['param_groups']]} parameters, "
            f"but the root's has {sizes}"
        )
    parameters: dict[Any, torch.Tensor] = {}
    for group, theirs in zip(optimizer.param_groups, roots["param_groups"]):
        parameters.update(zip(theirs["params"], group["params"]))
        like = group["params"][0] if group["params"] else None
        group.update(
            {key: _with_tensors(value, like, tensors) for key, value in theirs.items() if key != "params"}
        )
    optimizer.state.clear()
    for key, state in roots["state"].items():
        parameter = parameters.get(key)
        optimizer.state[key if parameter is None else parameter] = _with_tensors(state, parameter, tensors)
