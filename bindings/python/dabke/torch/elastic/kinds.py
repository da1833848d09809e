"""Copies of PyTorch's tensors and of objects with a ``state_dict``: models, optimizers, schedulers, samplers.

Copies lie where their tensors lie. The memory of a copy is used again for the copy after the next one.
"""

from __future__ import annotations

import copy as copies
import ctypes
import pickle
from collections import OrderedDict
from typing import Any

import torch

from ..._frontend.elastic.packing import register_reduction
from ...epochs import at_epoch_change
from .. import device_streams

__all__ = ["KINDS"]


def _copied(value: Any, spare: Any = None) -> Any:
    """Returns a copy of tensors, dicts, lists and any other objects. Tensors of `spare` are written again."""
    if isinstance(value, torch.Tensor):
        return _copied_tensor(value, spare)
    if isinstance(value, dict):
        old = spare if isinstance(spare, dict) else {}
        pairs = [(key, _copied(each, old.get(key))) for key, each in value.items()]
        if not isinstance(value, OrderedDict):
            return dict(pairs)
        result: Any = OrderedDict(pairs)
        if hasattr(value, "_metadata"):  # the versions of a module's parts
            result._metadata = copies.deepcopy(value._metadata)
        return result
    if type(value) in (list, tuple):
        old_items = spare if type(spare) is type(value) and len(spare) == len(value) else [None] * len(value)
        return type(value)(map(_copied, value, old_items))
    return copies.deepcopy(value)


def _copied_tensor(value: torch.Tensor, spare: Any) -> torch.Tensor:
    if (
        isinstance(spare, torch.Tensor)
        and spare.layout == value.layout == torch.strided
        and (spare.shape, spare.dtype, spare.device) == (value.shape, value.dtype, value.device)
    ):
        return spare.copy_(value.detach())
    return value.detach().clone()


class _WithStateDict:
    """An object with ``state_dict`` and ``load_state_dict``."""

    name = "state_dict"

    def fits(self, value: Any) -> bool:
        return callable(getattr(value, "state_dict", None)) and callable(
            getattr(value, "load_state_dict", None)
        )

    def copy(self, value: Any, spare: Any) -> Any:
        return _copied(value.state_dict(), spare)

    def load(self, value: Any, copy: Any) -> Any:
        _drop_in_flight(value)
        # An optimizer keeps the tensors that it loads, so it gets tensors of its own. A module copies them.
        value.load_state_dict(copy if isinstance(value, torch.nn.Module) else _copied(copy))
        return value

    def reset(self, value: Any) -> None:
        _drop_in_flight(value)
        reset = getattr(value, "reset", None)
        if isinstance(value, torch.utils.data.Sampler) and reset is not None:
            reset()


def _drop_in_flight(value: Any) -> None:
    drop = getattr(value, "_drop_in_flight", None)  # of a distributed optimizer
    if drop is not None:
        drop()


class _Tensors:
    """A tensor, or a dict, list or tuple that may have tensors."""

    name = "tensors"

    def fits(self, value: Any) -> bool:
        return isinstance(value, (torch.Tensor, dict, list, tuple))

    def copy(self, value: Any, spare: Any) -> Any:
        return _copied(value, spare)

    def load(self, value: Any, copy: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != copy.shape or value.dtype != copy.dtype:
            return _copied(copy)
        with torch.no_grad():
            value.copy_(copy)
        return value

    def reset(self, value: Any) -> None:
        """Does nothing."""


KINDS = (_WithStateDict(), _Tensors())


# ---- tensors on their way ----


def _memory_of(tensor: torch.Tensor) -> Any:
    """Returns the memory of a contiguous tensor of the host, as an object that keeps it."""
    array = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    array.tensor = tensor  # type: ignore[attr-defined]
    return array


def _reduced(tensor: torch.Tensor) -> Any:
    if tensor.layout != torch.strided or tensor.is_quantized or type(tensor) not in _PLAIN_CLASSES:
        return NotImplemented
    host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    memory = pickle.PickleBuffer(_memory_of(host)) if host.numel() else b""
    return _tensor_in, (memory, host.dtype, tuple(host.shape), tensor.device.type)


_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


def _tensor_in(memory: Any, dtype: torch.dtype, shape: tuple[int, ...], device: str) -> torch.Tensor:
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.frombuffer(memory, dtype=dtype).reshape(shape).to(device)


register_reduction(torch.Tensor, _reduced)
at_epoch_change(device_streams.clear)
