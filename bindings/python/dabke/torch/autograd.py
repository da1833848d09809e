"""The blocking collectives, through which gradients flow.

The gradient of an allreduce is the same allreduce of the ranks' gradients. An allgather gives each rank its rows of
the ranks' average gradient, a broadcast gives the root that average and the others zeros, an alltoall sends each row's
gradient back where the row came from, and a reducescatter gathers the ranks' gradients, times the number of ranks
where it sums. These scales are Horovod's: what they give is averaged over the ranks once, as an optimizer does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch

from .. import _core
from ..errors import UnsupportedError
from ..process_sets import global_process_set
from ..reduce_ops import Average, ReduceOp, Sum
from . import ops
from .compression import Compression, Compressor, wire_compression
from .options import AnySet, name_of, names_of_group, reduce_op, set_id_of
from .waiting import wait_for

_WORLD = global_process_set
_ONE = (1.0, 1.0)


class _How(NamedTuple):
    """A reduction's arguments, which its gradient needs again."""

    names: list[str]
    process_set: int
    op: int
    scales: tuple[float, float]
    wire: int

    @property
    def grad_names(self) -> list[str]:
        return [f"{name}.grad" for name in self.names]

    def check_linear(self, collective: str) -> None:
        if self.op not in (Average, Sum):
            raise UnsupportedError(f"{collective}: only Average and Sum have a gradient, not {ReduceOp(self.op).name}")


def _flows(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors
    )


def _apply(function: Any, *arguments: Any) -> Any:
    """Runs one of the functions below; autograd's own `apply` has no types."""
    return function.apply(*arguments)


# ---- the functions of autograd ----


class HorovodAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, how: _How) -> torch.Tensor:
        ctx.how = how
        return _reduce(tensor, how, how.names[0])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.how.check_linear("allreduce")
        return _reduce(grads[0].contiguous(), ctx.how, ctx.how.grad_names[0]), None


class HorovodGroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: _How, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(_reduce_group(list(tensors), how, how.names))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.how.check_linear("grouped_allreduce")
        return (None, *_reduce_group([grad.contiguous() for grad in grads], ctx.how, ctx.how.grad_names))


class HorovodAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str, process_set: int) -> torch.Tensor:
        ctx.rows, ctx.name, ctx.process_set = _rows(tensor), name, process_set
        return _waited(ops.submit_allgather, name, tensor, process_set)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _own_rows(grads[0], ctx.rows, ctx.name, ctx.process_set), None, None


class HorovodGroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, names: list[str], process_set: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.rows, ctx.names, ctx.process_set = [_rows(tensor) for tensor in tensors], names, process_set
        return tuple(_waited(ops.submit_grouped_allgather, names, tensors, process_set))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        own = (_own_rows(grad, rows, name, ctx.process_set) for grad, rows, name in zip(grads, ctx.rows, ctx.names))
        return (None, None, *own)


class HorovodBroadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: str, process_set: int) -> torch.Tensor:
        ctx.root_rank, ctx.name, ctx.process_set = root_rank, name, process_set
        return _waited(ops.submit_broadcast, name, tensor, False, root_rank, process_set)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        mean = _mean(grads[0], f"{ctx.name}.grad", ctx.process_set)
        return (mean if _core.rank() == ctx.root_rank else torch.zeros_like(mean)), None, None, None


class HorovodAlltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: str, process_set: int) -> Any:
        ctx.name, ctx.process_set = name, process_set
        handle = ops.submit_alltoall(name, tensor, splits, process_set, wait_follows=True)
        result = wait_for(handle)
        ctx.received = handle.received_splits()
        if splits is not None:
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        returned, _ = _waited(ops.submit_alltoall, f"{ctx.name}.grad", grads[0].contiguous(), ctx.received, ctx.process_set)
        return returned, None, None, None


class HorovodReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, how: _How) -> torch.Tensor:
        ctx.how = how
        return _waited(ops.submit_reducescatter, how.names[0], tensor, how.process_set, how.op, how.scales)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _gathered(grads[0], ctx.how.grad_names[0], ctx.how), None


class HorovodGroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: _How, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(_waited(ops.submit_grouped_reducescatter, how.names, tensors, how.process_set, how.op, how.scales))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return (None, *(_gathered(grad, name, ctx.how) for grad, name in zip(grads, ctx.how.grad_names)))


# ---- what they are made of ----


def _waited(submit: Callable[..., _core.Handle], *arguments: Any) -> Any:
    """The result of an operation that is waited for at once."""
    return wait_for(submit(*arguments, wait_follows=True))


def _rows(tensor: torch.Tensor) -> int:
    """A scalar has none; the runtime's own words refuse it."""
    return tensor.shape[0] if tensor.dim() else 0


def _reduce(tensor: torch.Tensor, how: _How, name: str) -> torch.Tensor:
    return _waited(ops.submit_allreduce, name, tensor, False, how.process_set, how.op, how.scales, how.wire)  # type: ignore[no-any-return]


def _reduce_group(tensors: list[torch.Tensor], how: _How, names: list[str]) -> list[torch.Tensor]:
    return _waited(ops.submit_grouped_allreduce, names, tensors, False, how.process_set, how.op, how.scales, how.wire)  # type: ignore[no-any-return]


def _mean(grad: torch.Tensor, name: str, process_set: int) -> torch.Tensor:
    return _waited(ops.submit_allreduce, name, grad.contiguous(), False, process_set, int(Average), _ONE)  # type: ignore[no-any-return]


def _own_rows(grad: torch.Tensor, rows: int, name: str, process_set: int) -> torch.Tensor:
    """This rank's rows of the ranks' average gradient of what was gathered."""
    counts = _waited(ops.submit_allgather, f"{name}.rows", torch.tensor([rows]), process_set).tolist()
    first = sum(counts[: _core.process_set_rank(process_set)])
    return _mean(grad, f"{name}.grad", process_set).narrow(0, first, rows)


def _gathered(grad: torch.Tensor, name: str, how: _How) -> torch.Tensor:
    how.check_linear("reducescatter")
    factor = how.scales[0] * how.scales[1] * (_core.process_set_size(how.process_set) if how.op == Sum else 1)
    gathered: torch.Tensor = _waited(ops.submit_allgather, name, grad.contiguous(), how.process_set)
    return gathered if factor == 1 else gathered * factor


# ---- the blocking collectives ----


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> torch.Tensor:
    """The elementwise reduction of all ranks' tensors, on every rank; differentiable for Average and Sum.

    Args:
        tensor: the same shape and dtype on every rank.
        compression: how it travels; see ``Compression``.
        op: Average (the default), Sum, Min, Max, Product; of integers and bool also BitwiseAnd, BitwiseOr,
            BitwiseXor. An average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
    """
    number = set_id_of(process_set)
    operation = reduce_op(op, average)
    wire = wire_compression(compression, tensor) if isinstance(tensor, torch.Tensor) else 3
    sent, context = (tensor, None) if wire is not None else compression.compress(tensor)
    name = name_of("allreduce", name, number)
    how = _How([name], number, operation, (prescale_factor, postscale_factor), 3 if wire is None else wire)
    result = _apply(HorovodAllreduce, sent, how) if _flows([sent]) else _reduce(sent, how, name)
    return result if wire is not None else compression.decompress(result, context)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> list[torch.Tensor]:
    """An allreduce of several tensors that travel together: all of them, or none. Differentiable as ``allreduce``.

    Their names are ``<name>_<i>of<count>``.
    """
    number = set_id_of(process_set)
    operation = reduce_op(op, average)
    wires = [wire_compression(compression, tensor) for tensor in tensors]
    wire = wires[0] if wires and all(each == wires[0] for each in wires) else None
    pairs = [(tensor, None) if wire is not None else compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    names = names_of_group("grouped_allreduce", name, number, len(sent))
    how = _How(names, number, operation, (prescale_factor, postscale_factor), 3 if wire is None else wire)
    results = _apply(HorovodGroupedAllreduce, how, *sent) if _flows(sent) else _reduce_group(sent, how, names)
    if wire is not None:
        return list(results)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def allgather(tensor: torch.Tensor, name: Optional[str] = None, process_set: AnySet = _WORLD) -> torch.Tensor:
    """All ranks' tensors one behind the other, in the order of the ranks; differentiable.

    Args:
        tensor: at least one dimension. The first may differ by rank, 0 too; the others and the dtype may not.
    """
    number = set_id_of(process_set)
    full_name = name_of("allgather", name, number)
    if _flows([tensor]):
        return _apply(HorovodAllgather, tensor, full_name, number)  # type: ignore[no-any-return]
    return _waited(ops.submit_allgather, full_name, tensor, number)  # type: ignore[no-any-return]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: AnySet = _WORLD
) -> list[torch.Tensor]:
    """An allgather of several tensors that travel together: all of them, or none; differentiable."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_allgather", name, number, len(tensors))
    if _flows(tensors):
        return list(_apply(HorovodGroupedAllgather, names, number, *tensors))
    return _waited(ops.submit_grouped_allgather, names, tensors, number)  # type: ignore[no-any-return]


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> torch.Tensor:
    """The tensor of `root_rank`, a world rank also in a process set, on every rank; differentiable."""
    number = set_id_of(process_set)
    full_name = name_of("broadcast", name, number)
    if _flows([tensor]):
        return _apply(HorovodBroadcast, tensor, root_rank, full_name, number)  # type: ignore[no-any-return]
    return _waited(ops.submit_broadcast, full_name, tensor, False, root_rank, number)  # type: ignore[no-any-return]


def alltoall(
    tensor: torch.Tensor,
    splits: Union[torch.Tensor, Sequence[int], None] = None,
    name: Optional[str] = None,
    process_set: AnySet = _WORLD,
) -> Any:
    """Row block i of the tensor goes to rank i of the set; the result is what came, by source rank. Differentiable.

    Args:
        tensor: at least one dimension, whose rows are sent.
        splits: the rows for each rank, as a tensor or a list; their sum is the first dimension. None: equal parts.

    Returns:
        the tensor; with `splits`, the tensor and an int32 tensor of the rows that came from each rank.
    """
    number = set_id_of(process_set)
    full_name = name_of("alltoall", name, number)
    if _flows([tensor]):
        return _apply(HorovodAlltoall, tensor, splits, full_name, number)
    return _waited(ops.submit_alltoall, full_name, tensor, splits, number)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces like ``allreduce``; rank i of the set keeps the i-th block of rows. Differentiable for Average and Sum.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n.
    """
    number = set_id_of(process_set)
    how = _How([name_of("reducescatter", name, number)], number, int(op), (prescale_factor, postscale_factor), 3)
    sent, context = compression.compress(tensor)
    if _flows([sent]):
        result = _apply(HorovodReducescatter, sent, how)
    else:
        result = _waited(ops.submit_reducescatter, how.names[0], sent, number, how.op, how.scales)
    return compression.decompress(result, context)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """A reducescatter of several tensors that travel together: all of them, or none. Differentiable likewise."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_reducescatter", name, number, len(tensors))
    how = _How(names, number, int(op), (prescale_factor, postscale_factor), 3)
    pairs = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    if _flows(sent):
        results = _apply(HorovodGroupedReducescatter, how, *sent)
    else:
        results = _waited(ops.submit_grouped_reducescatter, names, sent, number, how.op, how.scales)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]
