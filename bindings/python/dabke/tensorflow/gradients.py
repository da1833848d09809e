"""The gradients of the collectives, for each form of their ops.

An allreduce reduces the ranks' gradients in the same way. An allgather gives each rank its rows of the ranks'
average gradient. A broadcast gives that average to the root, and zeros to the others. An alltoall sends each
row's gradient back where the row came from. A reducescatter gathers the ranks' gradients, times the number of
ranks where it sums. These scales are Horovod's: an optimizer averages the results over the ranks once more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .. import _core
from .._frontend.collective_table import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from .._frontend.options import CallOptions, options_of
from ..errors import UnsupportedError
from ..reduce_ops import Average, ReduceOp, Sum
from .submission import run

__all__: list[str] = []

_FORMS = ("", "Blocking", "Wait")  # the op that submits has no output that a gradient flows through


def _factor(op: Any, name: str) -> float:
    return float(struct.unpack("<d", struct.pack("<q", op.get_attr(name)))[0])


class _Call:
    """The inputs and attributes of a collective's op, which its gradient needs again."""

    def __init__(self, op: Any, collective: str, has_splits: bool = False) -> None:
        further = (2 if has_splits else 1) + op.type.endswith("Wait")
        self.inputs = list(op.inputs)[: len(op.inputs) - further]
        self.no_gradients = [None] * further
        self.splits = op.inputs[len(self.inputs)] if has_splits else None
        self._names = op.inputs[len(self.inputs) + has_splits]
        self._collective = collective
        self.is_group = bool(op.get_attr("group"))
        self.options: CallOptions = options_of(
            int(op.get_attr("process_set")),
            int(op.get_attr("reduce_op")),
            _factor(op, "prescale"),
            _factor(op, "postscale"),
            int(op.get_attr("compression")),
            int(op.get_attr("priority")),
            int(op.get_attr("root_rank")),
        )

    def names(self, suffix: str) -> list[str]:
        """The names of the tensors with `suffix` behind them."""
        value = tf.get_static_value(self._names)
        if value is None:
            raise UnsupportedError(f"{self._collective}: the names of tensors must be constants")
        return [f"{name.decode()}.{suffix}" for name in value.tolist()]

    def check_linear(self) -> None:
        """Raises UnsupportedError where the operation has no gradient."""
        if self.options.op not in (Average, Sum):
            raise UnsupportedError(
                f"{self._collective}: only Average and Sum have a gradient, "
                f"not {ReduceOp(self.options.op).name}"
            )

    def mean(self, grads: list[Any]) -> list[tf.Tensor]:
        """The ranks' average gradients."""
        options = options_of(self.options.process_set, int(Average))
        return run(ALLREDUCE, self.names("grad"), grads, options, self.is_group).outputs


def _allreduce(op: Any, *grads: Any) -> list[Any]:
    call = _Call(op, ALLREDUCE.name)
    call.check_linear()
    reduced = run(ALLREDUCE, call.names("grad"), list(grads), call.options, call.is_group)
    return [*reduced.outputs, *call.no_gradients]


def _allgather(op: Any, *grads: Any) -> list[Any]:
    call = _Call(op, ALLGATHER.name)
    own = [tf.shape(tensor, out_type=tf.int64)[:1] for tensor in call.inputs]
    options = options_of(call.options.process_set)
    counts = run(ALLGATHER, call.names("rows"), own, options, call.is_group).outputs
    rank = _core.process_set_rank(call.options.process_set)
    parts = []
    for grad, rows in zip(call.mean(list(grads)), counts):
        first = tf.reduce_sum(rows[:rank])
        parts.append(grad[first : first + rows[rank]])
    return [*parts, *call.no_gradients]


def _broadcast(op: Any, *grads: Any) -> list[Any]:
    call = _Call(op, BROADCAST.name)
    means = call.mean(list(grads))
    if _core.rank() != call.options.root_rank:
        means = [tf.zeros_like(mean) for mean in means]
    return [*means, *call.no_gradients]


def _alltoall(op: Any, *grads: Any) -> list[Any]:
    call = _Call(op, ALLTOALL.name, has_splits=True)
    received = op.outputs[-1]
    returned = run(ALLTOALL, call.names("grad"), list(grads[:-1]), call.options, splits=received)
    return [*returned.outputs, *call.no_gradients]


def _reducescatter(op: Any, *grads: Any) -> list[Any]:
    call = _Call(op, REDUCESCATTER.name)
    call.check_linear()
    options = call.options
    ranks = _core.process_set_size(options.process_set) if options.op == Sum else 1
    factor = options.prescale_factor * options.postscale_factor * ranks
    plain = options_of(options.process_set)
    gathered = run(ALLGATHER, call.names("grad"), list(grads), plain, call.is_group).outputs
    scaled = gathered if factor == 1 else [each * tf.cast(factor, each.dtype) for each in gathered]
    return [*scaled, *call.no_gradients]


_GRADIENTS: dict[str, Callable[..., list[Any]]] = {
    "DabkeAllreduce": _allreduce,
    "DabkeAllgather": _allgather,
    "DabkeBroadcast": _broadcast,
    "DabkeAlltoall": _alltoall,
    "DabkeReducescatter": _reducescatter,
}


def _register() -> None:
    for op, gradient in _GRADIENTS.items():
        for form in _FORMS:
            tf.RegisterGradient(op + form)(gradient)
        tf.no_gradient(f"{op}Submit")
    tf.no_gradient("DabkeNumber")


_register()
