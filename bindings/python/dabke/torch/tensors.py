"""Tensors on their way to the runtime and back: as pointer, shape and dtype, without a copy if possible.

The runtime works on host memory, and on memory of CUDA devices in a build with NCCL. A tensor of another
device is refused, and the error names the solution. With ``init(host_staging=True)`` the tensor is copied to
the host, and the result is copied back when the handle is synchronized.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils.dlpack

from .. import _core
from ..errors import DabkeError, InvalidArgumentError, UnsupportedError
from .device_streams import is_supported

# The runtime's number of each dtype. Old versions of PyTorch lack some of them.
DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for name, number in _core.dtypes().items() if hasattr(torch, name)
}
_BY_NAME: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in _core.dtypes() if hasattr(torch, name)
}

_STRIDED = torch.strided

_host_staging = False


def set_host_staging(wanted: bool) -> None:
    """Sets, for the job, whether tensors of devices without a backend are copied to the host."""
    global _host_staging
    _host_staging = wanted


def is_plain(tensor: Any) -> bool:
    """Returns True for the most frequent tensors: contiguous, on the host, with a dtype of the runtime."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.is_cpu
        and tensor.layout is _STRIDED
        and tensor.dtype in DTYPES
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def check(tensor: Any, collective: str) -> None:
    """Raises an error if the runtime cannot take the tensor. The other ranks do not matter."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{collective}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        hint = "; use sparse_allreduce_async, or to_dense()" if collective.endswith("allreduce") else ""
        raise InvalidArgumentError(
            f"{collective}: the tensor's layout is {tensor.layout}, not torch.strided{hint}"
        )
    if tensor.dtype not in DTYPES:
        known = ", ".join(sorted(_BY_NAME))
        raise UnsupportedError(
            f"{collective}: Tensor type {tensor.type()} is not supported; these dtypes are: {known}"
        )
    if not tensor.is_contiguous():
        raise InvalidArgumentError(
            f"{collective}: the tensor of shape {tuple(tensor.shape)} has strides {tensor.stride()} "
            "and is not contiguous; pass tensor.contiguous()"
        )
    if tensor.is_neg():
        raise InvalidArgumentError(
            f"{collective}: the tensor has PyTorch's negative bit set; pass tensor.resolve_neg()"
        )
    if not is_supported(tensor) and not _host_staging:
        raise UnsupportedError(
            f"{collective}: the tensor is on {tensor.device}, and this build has no backend for that device; "
            "call dabke.torch.init(host_staging=True) to copy such tensors to the host and the results back"
        )


def on_host(tensor: torch.Tensor, collective: str, name: str, process_set: int) -> torch.Tensor:
    """Returns the tensor to hand over: itself, or a copy in host memory if it is staged.

    `name` of a group is the name of its first tensor.
    """
    if is_plain(tensor):
        return tensor
    try:
        check(tensor, collective)
    except DabkeError as error:
        _core.refuse(collective.removeprefix("grouped_"), name, process_set, error)
    return tensor if is_supported(tensor) else tensor.detach().to("cpu", copy=True)


def descriptor_of(tensor: torch.Tensor) -> _core.Tensor:
    """Returns pointer, shape and dtype of a tensor from ``on_host``, and keeps the tensor alive."""
    if tensor.is_cpu:
        return _core.Tensor(tensor.data_ptr(), tensor.shape, DTYPES[tensor.dtype], owner=tensor)
    return _core.Tensor(
        tensor.data_ptr(),
        tensor.shape,
        DTYPES[tensor.dtype],
        _core.CUDA,
        tensor.device.index or 0,
        owner=tensor,
    )


def from_output(output: _core.Output) -> torch.Tensor:
    """Returns the runtime's output as a tensor over its memory, which lives as long as the tensor."""
    if output.__dlpack_device__()[0] != _core.CPU:
        return torch.utils.dlpack.from_dlpack(output)
    dtype, count = _BY_NAME[output.dtype], math.prod(output.shape)
    if count == 0:
        return torch.empty(output.shape, dtype=dtype)
    # Not by DLPack: old versions of PyTorch refuse bool there.
    return torch.frombuffer(output, dtype=dtype, count=count).view(output.shape)


def on_device_of(like: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor on the device of `like`."""
    return tensor if tensor.device == like.device else tensor.to(like.device)


def result_in(target: torch.Tensor, handed_over: torch.Tensor) -> Any:
    """Returns the result in place: the target, or a function that copies a staged copy back to it."""
    if handed_over is target:
        return target

    def copy_back(handle: _core.Handle) -> torch.Tensor:
        with torch.no_grad():
            return target.copy_(handed_over)

    return copy_back


def outputs_like(tensors: Sequence[torch.Tensor]) -> Callable[[_core.Handle], list[torch.Tensor]]:
    """Returns a function that takes the runtime's own outputs, each to the device of its input."""
    devices = [tensor.device for tensor in tensors]

    def take(handle: _core.Handle) -> list[torch.Tensor]:
        outputs = [from_output(handle.output(i)) for i in range(handle.output_count)]
        return [output.to(device) for output, device in zip(outputs, devices)]

    return take
