"""The submit of PyTorch's tensors, for every collective and for groups.

Names here are full names, as in timelines and errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from .._frontend.collective_table import ALLTOALL, Collective
from .._frontend.options import CallOptions
from .device_streams import stream_of, submit
from .tensors import on_device_of, descriptor_of, from_output, on_host, outputs_like, result_in
from .waiting import wait_for

__all__ = [
    "Handle",
    "Splits",
    "run_alltoall",
    "run_group",
    "run_one",
    "submit_alltoall",
    "submit_group",
    "submit_one",
]

Handle = _core.Handle
Splits = torch.Tensor | Sequence[int] | None


def submit_one(
    collective: Collective,
    name: str,
    tensor: torch.Tensor,
    options: CallOptions,
    in_place: bool = False,
    wait_follows: bool = False,
) -> Handle:
    """Submits one tensor. The handle's result is a tensor on the same device, or `tensor` itself."""
    source = on_host(tensor, collective.name, name, options.process_set)
    compiled = options.on_stream(stream_of(source))
    device = tensor.device
    out: _core.Tensor | None = None
    result: Any
    if in_place:
        result = result_in(tensor, source)
    elif collective.keeps_shape:
        target = torch.empty_like(source, requires_grad=False)
        out = descriptor_of(target)
        result = target if target.device == device else lambda handle: target.to(device)
    else:

        def result(handle: Handle) -> torch.Tensor:
            return from_output(handle.output()).to(device)

    return submit(collective.submit, name, descriptor_of(source), out, compiled, result, wait_follows)


def submit_group(
    collective: Collective,
    names: list[str],
    tensors: Sequence[torch.Tensor],
    options: CallOptions,
    in_place: bool = False,
    wait_follows: bool = False,
) -> Handle:
    """Submits several tensors as one operation. The handle's result is a list of tensors."""
    assert collective.submit_group is not None
    sources = [on_host(tensor, collective.group_name, names[0], options.process_set) for tensor in tensors]
    compiled = options.on_stream(stream_of(sources[0]) if sources else 0)
    outs: list[_core.Tensor] | None = None
    result: Any
    if in_place:
        finish = [result_in(tensor, source) for tensor, source in zip(tensors, sources)]
        in_memory = all(tensor is source for tensor, source in zip(tensors, sources))
        result = (
            tensors
            if in_memory
            else lambda handle: [each(handle) if callable(each) else each for each in finish]
        )
    elif collective.keeps_shape:
        targets = [torch.empty_like(source, requires_grad=False) for source in sources]
        outs = [descriptor_of(target) for target in targets]
        staged = any(tensor.device != target.device for tensor, target in zip(tensors, targets))
        result = (
            targets if not staged else lambda handle: [on_device_of(*pair) for pair in zip(tensors, targets)]
        )
    else:
        result = outputs_like(tensors)
    inputs = [descriptor_of(source) for source in sources]
    return submit(collective.submit_group, names, inputs, outs, compiled, result, wait_follows)


def submit_alltoall(
    name: str, tensor: torch.Tensor, splits: Splits, options: CallOptions, wait_follows: bool = False
) -> Handle:
    """Submits an alltoall. With splits the result is a tensor, and an int32 tensor of received rows."""
    if splits is None:
        return submit_one(ALLTOALL, name, tensor, options, False, wait_follows)
    source = on_host(tensor, ALLTOALL.name, name, options.process_set)
    device = tensor.device
    rows = [int(each) for each in (splits.tolist() if isinstance(splits, torch.Tensor) else splits)]
    compiled = options.with_splits(rows, stream_of(source))

    def with_splits(handle: Handle) -> tuple[torch.Tensor, torch.Tensor]:
        received = torch.tensor(handle.received_splits(), dtype=torch.int32, device=device)
        return from_output(handle.output()).to(device), received

    return submit(ALLTOALL.submit, name, descriptor_of(source), None, compiled, with_splits, wait_follows)


# ---- the same functions, which also wait ----


def run_one(
    collective: Collective, name: str, tensor: torch.Tensor, options: CallOptions, in_place: bool = False
) -> torch.Tensor:
    """Submits one tensor and waits for it."""
    return wait_for(  # type: ignore[no-any-return]
        submit_one(collective, name, tensor, options, in_place, True)
    )


def run_group(
    collective: Collective,
    names: list[str],
    tensors: Sequence[torch.Tensor],
    options: CallOptions,
    in_place: bool = False,
) -> list[torch.Tensor]:
    """Submits several tensors as one operation and waits for it."""
    return wait_for(  # type: ignore[no-any-return]
        submit_group(collective, names, tensors, options, in_place, True)
    )


def run_alltoall(name: str, tensor: torch.Tensor, splits: Splits, options: CallOptions) -> Any:
    """Submits an alltoall and waits for it."""
    return wait_for(submit_alltoall(name, tensor, splits, options, True))
