"""The blocking collectives, which are differentiable.

Each collective has this gradient:

* allreduce: the same allreduce of the ranks' gradients
* allgather: this rank's rows of the ranks' average gradient
* broadcast: the ranks' average gradient on the root, zeros on the other ranks
* alltoall: each row's gradient, sent back to the source of the row
* reducescatter: the gathered gradients of the ranks; for a sum they are multiplied by the number of ranks

These scales are Horovod's. They expect that an optimizer averages the gradients over the ranks once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .. import _core
from .._frontend.collective_table import ALLGATHER, ALLREDUCE, BROADCAST, REDUCESCATTER
from ..errors import UnsupportedError
from ..process_sets import global_process_set
from ..reduce_ops import Average, ReduceOp, Sum
from ..compression import Compression as WireCompression
from .compression import Compression, Compressor, wire_compression
from .options import (
    AnySet,
    CallOptions,
    options_of,
    prefixed_group_names,
    prefixed_name,
    reduce_op,
    set_id_of,
)
from .submission import Splits, run_alltoall, run_group, run_one, submit_alltoall
from .waiting import wait_for

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "reducescatter",
]

_WORLD = global_process_set


class _Call(NamedTuple):
    """The names and options of a collective. Its gradient needs them again."""

    names: list[str]
    options: CallOptions

    @property
    def grad_names(self) -> list[str]:
        return [f"{name}.grad" for name in self.names]

    def check_linear(self, collective: str) -> None:
        op = self.options.op
        if op not in (Average, Sum):
            raise UnsupportedError(
                f"{collective}: only Average and Sum have a gradient, not {ReduceOp(op).name}"
            )


def _needs_gradient(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors
    )


def _apply(function: Any, *arguments: Any) -> Any:
    """Runs one of the functions below. The wrapper exists because autograd's own `apply` lacks types."""
    return function.apply(*arguments)


# ---- the functions of autograd ----


class HorovodAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: _Call) -> torch.Tensor:
        ctx.call = call
        return run_one(ALLREDUCE, call.names[0], tensor, call.options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.call.check_linear("allreduce")
        return run_one(ALLREDUCE, ctx.call.grad_names[0], grads[0].contiguous(), ctx.call.options), None


class HorovodGroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        return tuple(run_group(ALLREDUCE, call.names, list(tensors), call.options))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.call.check_linear("grouped_allreduce")
        compact = [grad.contiguous() for grad in grads]
        return (None, *run_group(ALLREDUCE, ctx.call.grad_names, compact, ctx.call.options))


class HorovodAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: _Call) -> torch.Tensor:
        ctx.rows, ctx.call = _rows(tensor), call
        return run_one(ALLGATHER, call.names[0], tensor, call.options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _own_rows(grads[0], ctx.rows, ctx.call.names[0], ctx.call.options), None


class HorovodGroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.rows, ctx.call = [_rows(tensor) for tensor in tensors], call
        return tuple(run_group(ALLGATHER, call.names, tensors, call.options))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        each = zip(grads, ctx.rows, ctx.call.names)
        return (None, *(_own_rows(grad, rows, name, ctx.call.options) for grad, rows, name in each))


class HorovodBroadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: _Call) -> torch.Tensor:
        ctx.call = call
        return run_one(BROADCAST, call.names[0], tensor, call.options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        mean = _mean(grads[0], ctx.call.grad_names[0], ctx.call.options)
        return (mean if _core.rank() == ctx.call.options.root_rank else torch.zeros_like(mean)), None


class HorovodAlltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, call: _Call) -> Any:
        ctx.call = call
        handle = submit_alltoall(call.names[0], tensor, splits, call.options, wait_follows=True)
        result = wait_for(handle)
        ctx.received = handle.received_splits()
        if splits is not None:
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        name, options = ctx.call.grad_names[0], ctx.call.options
        returned, _ = run_alltoall(name, grads[0].contiguous(), ctx.received, options)
        return returned, None, None


class HorovodReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: _Call) -> torch.Tensor:
        ctx.call = call
        return run_one(REDUCESCATTER, call.names[0], tensor, call.options)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _gathered(grads[0], ctx.call.grad_names[0], ctx.call), None


class HorovodGroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        return tuple(run_group(REDUCESCATTER, call.names, tensors, call.options))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return (None, *(_gathered(grad, name, ctx.call) for grad, name in zip(grads, ctx.call.grad_names)))


# ---- helper functions of the gradients ----


def _rows(tensor: torch.Tensor) -> int:
    """Returns the number of rows; 0 for a scalar, which the runtime refuses."""
    return tensor.shape[0] if tensor.dim() else 0


def _mean(grad: torch.Tensor, name: str, options: CallOptions) -> torch.Tensor:
    return run_one(ALLREDUCE, name, grad.contiguous(), options_of(options.process_set, int(Average)))


def _own_rows(grad: torch.Tensor, rows: int, name: str, options: CallOptions) -> torch.Tensor:
    """Returns this rank's rows of the ranks' average gradient of the gathered tensor."""
    counts = run_one(ALLGATHER, f"{name}.rows", torch.tensor([rows]), options).tolist()
    first = sum(counts[: _core.process_set_rank(options.process_set)])
    return _mean(grad, f"{name}.grad", options).narrow(0, first, rows)


def _gathered(grad: torch.Tensor, name: str, call: _Call) -> torch.Tensor:
    call.check_linear(REDUCESCATTER.name)
    options = call.options
    ranks = _core.process_set_size(options.process_set) if options.op == Sum else 1
    factor = options.prescale_factor * options.postscale_factor * ranks
    gathered = run_one(ALLGATHER, name, grad.contiguous(), options_of(options.process_set))
    return gathered if factor == 1 else gathered * factor


# ---- the blocking collectives ----


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> torch.Tensor:
    """Reduces the tensors of all ranks elementwise. Every rank gets the result.

    The function is differentiable for Average and Sum.

    Args:
        tensor: the input, contiguous and of any shape; the same shape and dtype on every rank.
        average: the older form of `op`: True for Average, False for Sum.
        name: the tensor's name, the same on every rank; it is prefixed by ``<collective>.``. None: numbered.
        compression: the form in which the tensor travels; see ``Compression``.
        op: a ``ReduceOp``; None: Average. An average of integers is truncated toward zero.
        prescale_factor: multiplies every input element.
        postscale_factor: multiplies every result.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a new tensor of the shape, dtype and device of `tensor`.

    Raises:
        InvalidArgumentError: an argument is not valid, such as a tensor that is not contiguous.
        UnsupportedError: no backend of this build supports the dtype or the device.
        DuplicateNameError: an operation of this name is still pending on this rank.
        MismatchError: shape, dtype, `op`, a factor, `compression` or `process_set` differ between ranks;
            raised on all of them.
        HorovodInternalError: the job has failed.
    """
    number = set_id_of(process_set)
    operation = reduce_op(op, average)
    plain = int(WireCompression.default)
    wire = wire_compression(compression, tensor) if isinstance(tensor, torch.Tensor) else plain
    sent, context = (tensor, None) if wire is not None else compression.compress(tensor)
    name = prefixed_name("allreduce", name, number)
    options = options_of(
        number, operation, prescale_factor, postscale_factor, plain if wire is None else wire
    )
    if _needs_gradient([sent]):
        result = _apply(HorovodAllreduce, sent, _Call([name], options))
    else:
        result = run_one(ALLREDUCE, name, sent, options)
    return result if wire is not None else compression.decompress(result, context)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> list[torch.Tensor]:
    """Reduces several tensors that travel together: all of them, or none. Differentiable like ``allreduce``.

    Errors and the arguments that are not here are those of ``allreduce``.

    Args:
        tensors: the inputs, contiguous and of any shapes; the same number on every rank, each with the same
            shape and dtype.
        name: the group's name; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        a result for each tensor, in their order.
    """
    number = set_id_of(process_set)
    operation = reduce_op(op, average)
    wires = [wire_compression(compression, tensor) for tensor in tensors]
    wire = wires[0] if wires and all(each == wires[0] for each in wires) else None
    pairs = [(tensor, None) if wire is not None else compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    names = prefixed_group_names("grouped_allreduce", name, number, len(sent))
    chosen = int(WireCompression.default) if wire is None else wire
    options = options_of(number, operation, prescale_factor, postscale_factor, chosen)
    if _needs_gradient(sent):
        results = _apply(HorovodGroupedAllreduce, _Call(names, options), *sent)
    else:
        results = run_group(ALLREDUCE, names, sent, options)
    if wire is not None:
        return list(results)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: AnySet = _WORLD) -> torch.Tensor:
    """Concatenates the tensors of all ranks, in the order of the ranks. Every rank gets the result.

    The function is differentiable.

    Args:
        tensor: the input, contiguous, of shape [rows, ...]. Only the rows may differ between ranks, and may
            be 0; the other dimensions and the dtype are the same on every rank.
        name: the tensor's name, the same on every rank; it is prefixed by ``<collective>.``. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a new tensor of shape [sum of all ranks' rows, ...].

    Raises:
        InvalidArgumentError: an argument is not valid, such as a scalar.
        UnsupportedError: no backend of this build supports the dtype or the device.
        DuplicateNameError: an operation of this name is still pending on this rank.
        MismatchError: the dtype, `process_set` or dimensions after the first differ between ranks; raised on
            all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set))
    full_name = prefixed_name("allgather", name, options.process_set)
    if _needs_gradient([tensor]):
        return _apply(HorovodAllgather, tensor, _Call([full_name], options))  # type: ignore[no-any-return]
    return run_one(ALLGATHER, full_name, tensor, options)


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: AnySet = _WORLD
) -> list[torch.Tensor]:
    """Gathers several tensors that travel together: all of them, or none. Differentiable.

    Errors and the arguments that are not here are those of ``allgather``.

    Args:
        tensors: the inputs, contiguous, of shapes [rows, ...]; the same number on every rank.
        name: the group's name; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        a result for each tensor, in their order.
    """
    options = options_of(set_id_of(process_set))
    names = prefixed_group_names("grouped_allgather", name, options.process_set, len(tensors))
    if _needs_gradient(tensors):
        return list(_apply(HorovodGroupedAllgather, _Call(names, options), *tensors))
    return run_group(ALLGATHER, names, tensors, options)


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: AnySet = _WORLD
) -> torch.Tensor:
    """Sends the tensor of one rank to every rank. Differentiable.

    Args:
        tensor: the input, contiguous and of any shape; the same shape and dtype on every rank. Only the data
            of `root_rank` is read.
        root_rank: the world rank that sends, also in a process set.
        name: the tensor's name, the same on every rank; it is prefixed by ``<collective>.``. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        a new tensor of the shape, dtype and device of `tensor`.

    Raises:
        InvalidArgumentError: an argument is not valid, such as a `root_rank` outside of the set.
        UnsupportedError: no backend of this build supports the dtype or the device.
        DuplicateNameError: an operation of this name is still pending on this rank.
        MismatchError: shape, dtype, `root_rank` or `process_set` differ between ranks; raised on all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set), root_rank=int(root_rank))
    full_name = prefixed_name("broadcast", name, options.process_set)
    if _needs_gradient([tensor]):
        return _apply(HorovodBroadcast, tensor, _Call([full_name], options))  # type: ignore[no-any-return]
    return run_one(BROADCAST, full_name, tensor, options)


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: AnySet = _WORLD,
) -> Any:
    """Sends row block i of the tensor to rank i of the set. The result has the received rows, by source rank.

    The function is differentiable.

    Args:
        tensor: the input, contiguous, of shape [rows, ...]; the dimensions after the first and the dtype are
            the same on every rank.
        splits: the number of rows for each rank, as a tensor or a list; their sum is the first dimension.
            None: equal parts.
        name: the tensor's name, the same on every rank; it is prefixed by ``<collective>.``. None: numbered.
        process_set: the ranks that take part, as a ``ProcessSet`` or its number.

    Returns:
        the tensor, of shape [received rows, ...]; with `splits`, that tensor and an int32 tensor with the
        number of rows from each rank.

    Raises:
        InvalidArgumentError: an argument is not valid, such as `splits` with another sum.
        UnsupportedError: no backend of this build supports the dtype or the device.
        DuplicateNameError: an operation of this name is still pending on this rank.
        MismatchError: the dtype, `process_set` or dimensions after the first differ between ranks; raised on
            all of them.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set))
    full_name = prefixed_name("alltoall", name, options.process_set)
    if _needs_gradient([tensor]):
        return _apply(HorovodAlltoall, tensor, splits, _Call([full_name], options))
    return run_alltoall(full_name, tensor, splits, options)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces like ``allreduce``. Rank i of the set gets the i-th block of rows.

    With n ranks and d rows the first d % n ranks get d // n + 1 rows, the others d // n. The function is
    differentiable for Average and Sum. Errors and the arguments that are not here are those of ``allreduce``.

    Args:
        tensor: the input, contiguous, of shape [d, ...]; the same shape and dtype on every rank.
        compression: the form in which the tensor travels. Floating-point tensors are cast before, and the
            result is cast back.

    Returns:
        a new tensor of this rank's rows, [d // n or d // n + 1, ...].
    """
    options = options_of(set_id_of(process_set), int(op), prescale_factor, postscale_factor)
    call = _Call([prefixed_name("reducescatter", name, options.process_set)], options)
    sent, context = compression.compress(tensor)
    if _needs_gradient([sent]):
        result = _apply(HorovodReducescatter, sent, call)
    else:
        result = run_one(REDUCESCATTER, call.names[0], sent, options)
    return compression.decompress(result, context)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Reduces and scatters several tensors that travel together: all of them, or none.

    The function is differentiable like ``reducescatter``. Errors and the arguments that are not here are
    those of ``reducescatter``.

    Args:
        tensors: the inputs, contiguous, of shapes [d, ...]; the same number on every rank, each with the same
            shape and dtype.
        name: the group's name; its members are ``<name>_<i>of<count>``, i from 1.

    Returns:
        this rank's rows of each tensor, in their order.
    """
    options = options_of(set_id_of(process_set), int(op), prescale_factor, postscale_factor)
    call = _Call(
        prefixed_group_names("grouped_reducescatter", name, options.process_set, len(tensors)), options
    )
    pairs = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    if _needs_gradient(sent):
        results = _apply(HorovodGroupedReducescatter, call, *sent)
    else:
        results = run_group(REDUCESCATTER, call.names, sent, options)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]
