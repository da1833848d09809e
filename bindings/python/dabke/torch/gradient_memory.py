"""Gradients in memory that ranks of one host share, so that they are reduced in place.

Every gradient has a slot in one piece of ``dabke_alloc`` memory. While ``parameter.grad`` lies there,
autograd adds to it and nothing is copied. After ``zero_grad(set_to_none=True)`` has dropped the gradient,
autograd makes a new one elsewhere. That gradient is copied to its slot, in one pass, before it is reduced.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from .. import _core
from .tensors import DTYPES, descriptor_of

_ALIGNMENT = 64


class Slot:
    """The memory of a parameter's gradient."""

    __slots__ = ("flat", "gradient", "descriptor")

    def __init__(self, gradient: torch.Tensor) -> None:
        self.gradient = gradient
        self.flat = flat_view(gradient)
        self.descriptor = descriptor_of(self.flat)

    def copy_from(self, gradient: torch.Tensor) -> None:
        """Copies a gradient that autograd has made elsewhere to this slot."""
        self.gradient.copy_(gradient.detach())

    def holds(self, gradient: torch.Tensor) -> bool:
        """True if the gradient lies in this slot."""
        if gradient is self.gradient:
            return True
        return gradient.data_ptr() == self.gradient.data_ptr() and gradient.stride() == self.gradient.stride()


def is_compact(tensor: torch.Tensor) -> bool:
    """True if the elements fill one piece of memory, each once, in any order of the dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a compact tensor's elements in the order of memory; complex numbers as pairs."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    return torch.view_as_real(flat).view(-1) if flat.is_complex() else flat


def slots_for(parameters: Iterable[torch.Tensor]) -> dict[torch.Tensor, Slot]:
    """Returns a slot for the gradient of each parameter that is on the host, compact, of a good dtype."""
    able = [each for each in parameters if _can_have_slot(each)]
    offsets, size = [], 0
    for each in able:
        offsets.append(size)
        size += math.ceil(each.numel() * each.element_size() / _ALIGNMENT) * _ALIGNMENT
    if size == 0:
        return {}
    memory = _core.Memory(size)
    slots = {}
    for parameter, offset in zip(able, offsets):
        flat = torch.frombuffer(memory, dtype=parameter.dtype, count=parameter.numel(), offset=offset)
        slots[parameter] = Slot(flat.as_strided(parameter.shape, parameter.stride()))
    return slots


def _can_have_slot(parameter: torch.Tensor) -> bool:
    return (
        parameter.device.type == "cpu"
        and parameter.layout == torch.strided
        and parameter.numel() > 0
        and (parameter.dtype in DTYPES or parameter.is_complex())
        and is_compact(parameter)
    )
