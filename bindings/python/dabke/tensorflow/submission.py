"""The ops of the collectives: one that blocks in eager mode, and those of a graph.

Names are full ones here, as they are in timelines and errors.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf  # type: ignore[import-untyped]

from .. import _core
from .._frontend.collective_table import ALLTOALL, Collective
from .._frontend.names import check_names
from .._frontend.options import CallOptions
from ..errors import DabkeError, from_status
from .host import on_host, refuse_xla
from .library import library
from .order import note_submit, note_wait, run_independently
from .ways import is_asynchronous

__all__ = ["Result", "error_in", "errors_of_ours", "run", "run_one"]

_STATUSES = _core.statuses()


class Result(NamedTuple):
    """The outputs of a collective, and the rows that an alltoall has received from each rank; else None."""

    outputs: list[tf.Tensor]
    received_splits: tf.Tensor | None


@contextlib.contextmanager
def errors_of_ours() -> Iterator[None]:
    """Raises errors of the runtime, which come out of TensorFlow as ``tf.errors``, as the classes of
    ``dabke.errors``."""
    try:
        yield
    except tf.errors.OpError as error:
        ours = error_in(error)
        if ours is None:
            raise
        raise ours from None


def error_in(error: BaseException) -> DabkeError | None:
    """Returns the error of the runtime that an error of TensorFlow carries; None if it carries none."""
    payloads: dict[bytes, bytes] = getattr(error, "experimental_payloads", None) or {}
    status = payloads.get(b"dabke.status")
    if status is None:
        return None
    return from_status(_STATUSES[status.decode()], payloads.get(b"dabke.text", b"").decode(errors="replace"))


def _bits(factor: float) -> int:
    """The bits of a double, because attributes of ops have floats of 32 bits alone."""
    return int(struct.unpack("<q", struct.pack("<d", factor))[0])


@functools.lru_cache(maxsize=4096)
def _attributes(options: CallOptions, group: bool) -> dict[str, int]:
    return {
        "group": int(group),
        "process_set": options.process_set,
        "reduce_op": int(options.op),
        "root_rank": options.root_rank,
        "prescale": _bits(options.prescale_factor),
        "postscale": _bits(options.postscale_factor),
        "compression": int(options.compression),
        "priority": options.priority,
    }


def _names_in(collective: str, names: tuple[str, ...]) -> tf.Tensor:
    check_names(collective, names)
    return tf.constant(names)


_eager_names = functools.lru_cache(maxsize=1024)(_names_in)


def _outputs(collective: Collective, made: Any) -> Result:
    if collective is ALLTOALL:
        return Result(list(made.outputs), made.received_splits)
    return Result(list(made), None)


def _run_eagerly(collective: Collective, inputs: list[Any], attributes: dict[str, int]) -> Result:
    function = getattr(library, f"dabke_{collective.name}_blocking")
    with errors_of_ours(), on_host():
        return _outputs(collective, function(*inputs, **attributes))


def _run_in_graph(collective: Collective, inputs: list[Any], attributes: dict[str, int]) -> Result:
    base = f"dabke_{collective.name}"
    with on_host():
        if is_asynchronous():
            result = _outputs(collective, getattr(library, base)(*inputs, **attributes))
            run_independently(result.outputs[0].op)
            return result
        ticket = getattr(library, f"{base}_submit")(*inputs, **attributes)
        note_submit(ticket.op)
        result = _outputs(collective, getattr(library, f"{base}_wait")(*inputs, ticket, **attributes))
        note_wait(result.outputs[0].op)
        return result


def run(
    collective: Collective,
    names: Sequence[str],
    tensors: Sequence[Any],
    options: CallOptions,
    is_group: bool = False,
    splits: Any = None,
) -> Result:
    """Runs a collective of several tensors: at once in eager mode, and when the graph runs that is being
    traced.

    Args:
        names: the full name of each tensor.
        tensors: at least one; tensors of TensorFlow, or what it makes tensors of.
        is_group: whether all tensors complete or none; otherwise each one goes by itself.
        splits: an alltoall's rows for each rank, as a vector; None: equal parts.

    Raises:
        UnsupportedError: the graph is to be compiled by XLA.
        DabkeError: the call has failed; in eager mode alone.
    """
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    eager = tf.executing_eagerly()
    if not eager:
        refuse_xla(collective.name, names[0])
    inputs: list[Any] = [values]
    if collective is ALLTOALL:
        inputs.append(tf.cast(tf.zeros([0], tf.int64) if splits is None else splits, tf.int64))
    inputs.append((_eager_names if eager else _names_in)(collective.name, tuple(names)))
    attributes = _attributes(options, is_group)
    return (_run_eagerly if eager else _run_in_graph)(collective, inputs, attributes)


def run_one(collective: Collective, name: str, tensor: Any, options: CallOptions) -> tf.Tensor:
    """Runs a collective of one tensor."""
    return run(collective, [name], [tensor], options).outputs[0]
