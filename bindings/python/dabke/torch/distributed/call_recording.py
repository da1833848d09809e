"""Records the calls of a group: in the flight recorder, and with their parameters in PyTorch's profiler.

`record_calls` wraps the methods of a class of groups. A call that consists of other calls, such as
``allgather_coalesced``, is recorded as one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from ...errors import DabkeError
from . import flight_recorder, profile_parameters

__all__ = ["record_calls"]

GroupClass = TypeVar("GroupClass", bound=type)

_Tensor = torch.Tensor
_profiler_enabled = torch._C._autograd._profiler_enabled


class _Form(NamedTuple):
    """The positions of a call's outputs and inputs among its arguments."""

    outputs: int | None
    inputs: int | None
    calls_others: bool = False


_IN_PLACE = _Form(0, 0)
_TWO = _Form(0, 1)
_TWO_OF_MANY = _Form(0, 1, calls_others=True)

# Each method with the name that PyTorch's tools know for it.
_CALLS = {
    "allreduce": ("all_reduce", _IN_PLACE),
    "allreduce_coalesced": ("allreduce_coalesced", _IN_PLACE),
    "broadcast": ("broadcast", _IN_PLACE),
    "reduce": ("reduce", _IN_PLACE),
    "allgather": ("all_gather", _TWO),
    "allgather_coalesced": ("ALLGATHER_coalesced", _TWO_OF_MANY),
    "_allgather_base": ("_all_gather_base", _TWO),
    "all_gather_single": ("_all_gather_base", _TWO),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor_coalesced", _TWO_OF_MANY),
    "all_gather_single_coalesced": ("all_gather_into_tensor_coalesced", _TWO_OF_MANY),
    "reduce_scatter": ("reduce_scatter", _TWO),
    "_reduce_scatter_base": ("_reduce_scatter_base", _TWO),
    "reduce_scatter_single": ("_reduce_scatter_base", _TWO),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor_coalesced", _TWO_OF_MANY),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced", _TWO_OF_MANY),
    "gather": ("gather", _TWO),
    "scatter": ("scatter", _TWO),
    "alltoall": ("all_to_all", _TWO),
    "alltoall_base": ("all_to_all", _TWO),
    "all_to_all_single": ("all_to_all", _TWO),
    "barrier": ("barrier", _Form(None, None)),
    "_send": ("send", _Form(None, 0)),
    "_recv": ("recv", _Form(0, None)),
    "recv_anysource": ("recv", _Form(0, None)),
}


def record_calls(group: GroupClass) -> GroupClass:
    """Wraps the calls of a class of groups, which is returned."""
    group._is_recording = False  # type: ignore[attr-defined]
    for method, (title, form) in _CALLS.items():
        setattr(group, method, _recorded(title, form, getattr(group, method)))
    return group


def _recorded(title: str, form: _Form, method: Callable[..., Any]) -> Callable[..., Any]:
    outputs_at, inputs_at, calls_others = form
    peer_at = {"_send": 1, "_recv": 1}.get(method.__name__)
    tag_at = {"_send": 2, "_recv": 2, "recv_anysource": 1}.get(method.__name__)
    needed = max((each + 1 for each in (outputs_at, inputs_at, tag_at) if each is not None), default=0)
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **more: Any) -> Any:
        if self._is_recording:
            return method(self, *arguments, **more)
        if calls_others:
            self._is_recording = True
        try:
            work = method(self, *arguments, **more)
        except DabkeError as error:
            flight_recorder.note_failure(error)
            raise
        finally:
            if calls_others:
                self._is_recording = False
        profiled = _profiler_enabled()
        if not flight_recorder.is_on and not profiled:
            return work
        facts = self._facts or flight_recorder.group_facts(self)
        sequence = next(facts.collectives if tag_at is None else facts.messages)
        if more or len(arguments) < needed:
            bound = signature.bind(self, *arguments, **more)
            bound.apply_defaults()
            arguments = bound.args[1:]
        dtype, inputs = (None, ()) if inputs_at is None else dtype_and_shapes(arguments[inputs_at])
        if outputs_at == inputs_at:
            outputs = inputs
        elif outputs_at is None:
            outputs = ()
        else:
            output_dtype, outputs = dtype_and_shapes(arguments[outputs_at])
            dtype = dtype or output_dtype
        message = None
        if tag_at is not None:
            message = (None if peer_at is None else arguments[peer_at], arguments[tag_at])
        if flight_recorder.is_on:
            flight_recorder.record(self, title, sequence, inputs, outputs, dtype, message, work._handles)
        if profiled:
            profile_parameters.record(facts, title, sequence, inputs, outputs, dtype, message)
        return work

    return call


def dtype_and_shapes(tensors: Any) -> tuple[torch.dtype | None, tuple[Any, ...]]:
    """Returns the dtype of the first tensor, and the shapes of a tensor or of all tensors in nested lists."""
    if type(tensors) is list and len(tensors) == 1:
        tensors = tensors[0]
    # An isinstance of torch.Tensor costs more than all else here.
    if type(tensors) is _Tensor or isinstance(tensors, _Tensor):
        return tensors.dtype, (tensors.shape,)
    parts = [dtype_and_shapes(each) for each in tensors]
    return next((dtype for dtype, _ in parts if dtype), None), tuple(
        each for _, part in parts for each in part
    )
