"""Torch tensors in the runtime's form: compact memory of the CPU or of a CUDA device.

The runtime gets pointer, shape and dtype. Data that is only moved is treated as bytes if the runtime lacks
the dtype. Tensors that are not compact go through a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...errors import InvalidArgumentError, UnsupportedError
from ..device_streams import is_supported, record_use
from ..tensors import DTYPES

__all__ = [
    "Tensors",
    "check",
    "check_device",
    "is_ready",
    "flattened",
    "concatenated",
    "output_buffer",
    "output_buffers",
    "apart_from",
    "as_movable",
    "as_reducible",
    "only_tensor",
]

Tensors = Sequence[torch.Tensor]
OutputBuffer = tuple[torch.Tensor, "Callable[[], None] | None"]

_Tensor, _STRIDED = torch.Tensor, torch.strided


def check_device(call: str, tensor: torch.Tensor) -> None:
    if not is_supported(tensor):
        raise UnsupportedError(
            f"{call}: the tensor is on {tensor.device}, and this build has no backend for that device; "
            "pass tensor.cpu()"
        )


def check(call: str, tensor: torch.Tensor) -> None:
    """Refuses a tensor that is not plain memory, or that the runtime cannot use."""
    check_device(call, tensor)
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"{call}: layout {tensor.layout} is not supported; pass tensor.to_dense()")


def as_reducible(call: str, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a compact tensor in a form that can be reduced: complex numbers as pairs of real numbers."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype not in DTYPES:
        raise UnsupportedError(f"{call}: dtype {tensor.dtype} cannot be reduced; convert the tensor")
    return tensor


def flattened(call: str, tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements in one dimension, without a copy if the tensor is compact; not for autograd."""
    if is_ready(tensor):
        return tensor if tensor.ndim == 1 else tensor.view(-1)
    check(call, tensor)
    # reshape() may return a view of every other element unchanged: flat, but not compact.
    return tensor.detach().resolve_neg().resolve_conj().reshape(-1).contiguous()


def as_movable(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a compact tensor of one or more dimensions, or its bytes if the runtime lacks its dtype."""
    if tensor.dtype in DTYPES:
        return tensor
    if tensor.dim() == 1 and tensor.stride(0) != 1:  # with at most one element, whose stride has no meaning
        tensor = tensor.as_strided((tensor.numel(),), (1,))
    return tensor.view(torch.uint8)


def output_buffer(call: str, tensor: torch.Tensor) -> OutputBuffer:
    """Returns flat memory for a result of this tensor's size, and a function that copies it to the tensor.

    The function is None if the memory is the tensor's own.
    """
    if is_ready(tensor):
        return tensor if tensor.ndim == 1 else tensor.view(-1), None
    check(call, tensor)
    _check_writable(call, tensor)
    tensor = tensor.detach()
    if _is_plain(tensor):
        return tensor.view(-1), None
    staged = torch.empty(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    return staged, lambda: _copy(tensor, staged)


def concatenated(call: str, tensors: Tensors) -> torch.Tensor:
    """Returns the elements of all tensors in one dimension, without a copy for neighbours in memory."""
    _check_alike(call, tensors)
    view = _one_view(tensors)
    return view if view is not None else torch.cat([flattened(call, each) for each in tensors])


def output_buffers(call: str, tensors: Tensors) -> OutputBuffer:
    """Works like ``output_buffer``, for a result that fills the tensors one after the other."""
    _check_alike(call, tensors)
    view = _one_view(tensors)
    if view is not None:
        return view, None
    for each in tensors:
        _check_writable(call, each)
    count, first = sum(each.numel() for each in tensors), tensors[0]
    staged = torch.empty(count, dtype=first.dtype, device=first.device)

    def hand_out() -> None:
        parts = torch.split(staged, [each.numel() for each in tensors])
        for tensor, part in zip(tensors, parts):
            _copy(tensor.detach(), part)

    return staged, hand_out


def apart_from(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Returns the source, or a copy if it shares memory with the target. Both are compact.

    FSDP gathers from a part of the result, for example.
    """
    begin, end = target.data_ptr(), target.data_ptr() + target.numel() * target.element_size()
    source_end = source.data_ptr() + source.numel() * source.element_size()
    return source.clone() if begin < source_end and source.data_ptr() < end else source


def only_tensor(call: str, tensors: torch.Tensor | Tensors) -> torch.Tensor:
    """Returns the tensor, or the only tensor of a list: torch passes a list with one for each device."""
    if type(tensors) is list and len(tensors) == 1:  # faster than an isinstance of torch.Tensor
        only: torch.Tensor = tensors[0]
        return only
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise InvalidArgumentError(f"{call}: expected one tensor, got {len(tensors)}")
    return tensors[0]


def _copy(tensor: torch.Tensor, flat_result: torch.Tensor) -> None:
    record_use(flat_result)
    tensor.copy_(flat_result.view(tensor.shape))


def is_ready(tensor: torch.Tensor) -> bool:
    """True for the most frequent tensors: they need neither a copy nor a view apart from autograd."""
    return (
        type(tensor) is _Tensor
        and tensor.is_cpu
        and tensor.layout is _STRIDED
        and tensor.dtype in DTYPES
        and not tensor.requires_grad
        and _is_plain(tensor)
    )


def _is_plain(tensor: torch.Tensor) -> bool:
    """True if the memory has the elements themselves, in their order."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def _check_writable(call: str, tensor: torch.Tensor) -> None:
    if tensor.numel() > 1 and any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride())):
        raise InvalidArgumentError(
            f"{call}: elements of the result, of shape {tuple(tensor.shape)} and strides {tensor.stride()}, "
            "share memory; pass tensor.clone()"
        )


def _check_alike(call: str, tensors: Tensors) -> None:
    for each in tensors:
        check(call, each)
        if each.dtype != tensors[0].dtype:
            raise InvalidArgumentError(
                f"{call}: a list needs tensors of one dtype, got {tensors[0].dtype} and {each.dtype}"
            )
        if each.device != tensors[0].device:
            raise InvalidArgumentError(
                f"{call}: a list needs tensors on one device, got {tensors[0].device} and {each.device}"
            )


def _one_view(tensors: Tensors) -> torch.Tensor | None:
    """Returns the tensors as one view if they are neighbours in memory, like the parts of a split."""
    first, end = tensors[0], tensors[0].data_ptr()
    storage = _storage_of(first)
    for each in tensors:
        if not _is_plain(each) or each.data_ptr() != end or _storage_of(each) != storage:
            return None
        end += each.numel() * each.element_size()
    count = sum(each.numel() for each in tensors)
    return first.detach().as_strided((count,), (1,), first.storage_offset())


def _storage_of(tensor: torch.Tensor) -> int:
    storage = (
        tensor.untyped_storage()
        if hasattr(tensor, "untyped_storage")
        # Torch before 2.0 lacks untyped_storage.
        else tensor.storage()  # type: ignore[no-untyped-call]
    )
    return int(storage.data_ptr())
