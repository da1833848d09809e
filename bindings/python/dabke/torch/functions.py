"""What all ranks begin with: parameters, the optimizer's state, and any Python object of rank 0."""

from __future__ import annotations

import functools
import importlib
import pickle
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Optional, TypeVar, Union

import torch

from .. import _core
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from .sparse_tensors import no_rows
from . import ops
from .options import AnySet, name_of, set_id_of
from .waiting import wait_for

try:
    _pickler: Any = importlib.import_module("cloudpickle")
except ImportError:  # functions of the main program cannot travel then
    _pickler = pickle

_WORLD = global_process_set
T = TypeVar("T")


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

_NOT_PICKLED = -1  # in the place of a length


def _bytes_of(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(_pickler.dumps(obj)), dtype=torch.uint8)


def _object_of(data: torch.Tensor) -> Any:
    received = bytearray(data.numel())
    torch.frombuffer(received, dtype=torch.uint8).copy_(data)
    return pickle.loads(received)


class _Attempts:
    """What this rank tries in the middle of a call of all ranks: `all_succeed` raises on all of them if one has failed."""

    def __init__(self, call: str, base: str, process_set: int) -> None:
        self._call, self._base, self._process_set = call, base, process_set
        self._error: Optional[Exception] = None
        self._text = b""

    def __call__(self, what: str, function: Callable[[], T]) -> Optional[T]:
        """The function's result; None where it raises, or something has failed before."""
        if self._error is not None:
            return None
        try:
            return function()
        except Exception as error:
            why = "".join(traceback.format_exception_only(type(error), error)).strip()
            text = f"{self._call} '{self._base}': rank {_core.rank()} cannot {what}: {why}"
            self._error, self._text = error, text.encode(errors="backslashreplace")
            return None

    def all_succeed(self) -> None:
        """Raises the text of the first rank that has failed. Every rank calls it, whatever has become of its attempts."""
        mine = torch.frombuffer(bytearray(self._text), dtype=torch.uint8) if self._text else torch.empty(0, dtype=torch.uint8)
        lengths = wait_for(ops.submit_allgather(f"{self._base}.failures", torch.tensor([mine.numel()]), self._process_set))
        if not lengths.any():
            return
        texts = wait_for(ops.submit_allgather(f"{self._base}.texts", mine, self._process_set)).split(lengths.tolist())
        first = next(text for text in texts if text.numel() > 0)
        raise InvalidArgumentError(bytes(first.tolist()).decode()) from self._error


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Any:
    """The object of `root_rank` on every rank. It travels as a pickle, between ranks that trust each other.

    Args:
        obj: whatever pickle can take, or cloudpickle where it is installed. Only that of `root_rank` matters.

    Returns:
        the object; on `root_rank` the very same.

    Raises:
        InvalidArgumentError: `root_rank` cannot pickle it, or a rank cannot unpickle it; on all ranks, with that rank's text.
    """
    number = set_id_of(process_set)
    base = name_of("broadcast_object", name, number)
    attempt = _Attempts("broadcast_object", base, number)
    is_root = _core.rank() == root_rank
    data = attempt("pickle its object", lambda: _bytes_of(obj)) if is_root else None
    length = torch.tensor([_NOT_PICKLED if data is None else data.numel()])
    wait_for(ops.submit_broadcast(f"{base}.length", length, True, root_rank, number, wait_follows=True))
    if int(length) != _NOT_PICKLED:
        if data is None:
            data = torch.empty(int(length), dtype=torch.uint8)
        wait_for(ops.submit_broadcast(f"{base}.data", data, True, root_rank, number, wait_follows=True))
        if not is_root:
            received = data
            obj = attempt(f"unpickle the object of rank {root_rank}", lambda: _object_of(received))
    attempt.all_succeed()
    return obj


def allgather_object(obj: Any, name: Optional[str] = None, *, process_set: AnySet = _WORLD) -> list[Any]:
    """The list of all ranks' objects, in the order of the ranks. They travel as ``broadcast_object``'s does.

    Raises:
        InvalidArgumentError: a rank cannot pickle its object, or unpickle another's; on all ranks, with that rank's text.
    """
    number = set_id_of(process_set)
    base = name_of("allgather_object", name, number)
    attempt = _Attempts("allgather_object", base, number)
    data = attempt("pickle its object", lambda: _bytes_of(obj))
    rows = torch.empty(0, dtype=torch.uint8) if data is None else data
    waiting = [
        ops.submit_allgather(f"{base}.lengths", torch.tensor([_NOT_PICKLED if data is None else rows.numel()]), number),
        ops.submit_allgather(f"{base}.data", rows, number),
    ]
    lengths, all_data = (wait_for(handle) for handle in waiting)
    objects = []
    if _NOT_PICKLED not in lengths:
        ranks = _core.process_set_ranks(number)
        for rank, part in zip(ranks, all_data.split(lengths.tolist())):
            objects.append(attempt(f"unpickle the object of rank {rank}", functools.partial(_object_of, part)))
    attempt.all_succeed()
    return objects


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
    they are on `root_rank`. Parameters that need a gradient and have none get one of zeros, on all ranks, as after
    Horovod's function; one of SparseAdam's is sparse.

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
    _fill_gradients(optimizer)


def _fill_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Programs written for Horovod read them before the first backward pass."""
    zeros = no_rows if isinstance(optimizer, torch.optim.SparseAdam) else torch.zeros_like
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = zeros(parameter.detach())


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
