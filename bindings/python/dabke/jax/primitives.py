"""The collectives as primitives of JAX: what they give, how they are lowered, and how transformations act on
them.

Every one takes any number of arrays and gives as many. It has no effect in JAX's sense, so programs with it
are dispatched on the fast path and transformed like any other. The lowered call has one in XLA's: XLA neither
merges nor drops it.

Transposes, which are those of the PyTorch layer:

    allreduce       the same allreduce, of Average and Sum alone
    allgather       this rank's rows of the ranks' average gradient
    broadcast       the ranks' average gradient on the root, zeros elsewhere
    alltoall        the alltoall back
    reducescatter   the ranks' gradients gathered, times the ranks and the factors where it sums
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .. import _core
from .._frontend.names import check_names
from ..errors import InvalidArgumentError, UnsupportedError
from ..reduce_ops import Average, ReduceOp, Sum
from . import direct, ffi, instances, internals
from .calls import Call

__all__ = ["allgather_p", "allreduce_p", "alltoall_p", "bind", "broadcast_p", "reducescatter_p"]


# ---- shapes ----


def _same_shapes(call: Call, shapes: Sequence[Any]) -> list[Any]:
    return list(shapes)


def _need_rows(call: Call, shapes: Sequence[Any]) -> None:
    for name, shape in zip(call.names, shapes):
        if not shape:
            raise InvalidArgumentError(f"'{name}' is a scalar; it needs at least one dimension")


def _gathered_shapes(call: Call, shapes: Sequence[Any]) -> list[Any]:
    _need_rows(call, shapes)
    return [(call.set_size * shape[0], *shape[1:]) for shape in shapes]


def _exchanged_shapes(call: Call, shapes: Sequence[Any]) -> list[Any]:
    _need_rows(call, shapes)
    for name, shape in zip(call.names, shapes):
        if shape[0] % call.set_size:
            raise InvalidArgumentError(
                f"alltoall '{name}': {shape[0]} rows cannot be divided evenly among {call.set_size} ranks; "
                "inside of jit every rank sends as many rows to each other"
            )
    return list(shapes)


def rows_of(rank: int, size: int, rows: int) -> int:
    """The rows that a reducescatter of `rows` rows gives to the rank."""
    return rows // size + (rank < rows % size)


def _scattered_shapes(call: Call, shapes: Sequence[Any]) -> list[Any]:
    _need_rows(call, shapes)
    return [(rows_of(call.set_rank, call.set_size, shape[0]), *shape[1:]) for shape in shapes]


# ---- lowering ----


_IN_PLACE = ("allreduce", "broadcast")
_BETWEEN_NAMES = "\n"


def _lower(collective: str, context: Any, *operands: Any, call: Call) -> Any:
    if (devices := internals.device_count(context)) > 1:
        raise UnsupportedError(
            f"{collective} '{call.names[0]}': the program runs on {devices} devices of this process, and "
            "a rank takes part once; give each rank one device, or call it outside of the sharded program"
        )
    count = len(operands)
    names = instances.numbered(context, call.names)
    link = instances.last_link(context)
    # In place, where the shapes allow it: XLA copies an operand that something else still reads.
    in_place = {i: i for i in range(count)} if collective in _IN_PLACE else {}
    options = {
        "names": _BETWEEN_NAMES.join(names),
        "tensors": numpy.int32(count),
        "alone": numpy.int32(1),
        **call.attributes,
    }
    *results, link = internals.call_handler(
        context, ffi.target_of(collective), options, operands, () if link is None else (link,), in_place
    )
    instances.note_lowered(context, link.owner, link)
    return results


def _lower_by_host(collective: str, context: Any, *operands: Any, call: Call) -> Any:
    """On a device that is not the host: the arrays travel by way of it."""
    if (devices := internals.device_count(context)) > 1:
        raise UnsupportedError(
            f"{collective} '{call.names[0]}': the program runs on {devices} devices of this process"
        )
    numbered = Call(**{**vars(call), "names": tuple(instances.numbered(context, call.names))})
    direct.note_device("a device")

    def on_host(*arrays: Any) -> list[Any]:
        results = direct.run(collective, numbered, [numpy.asarray(each) for each in arrays])
        return [numpy.asarray(result) for result in results]

    def through_host(*values: Any) -> Any:
        make: Any = jax.ShapeDtypeStruct
        forms = [make(each.shape, each.dtype) for each in context.avals_out]
        return jax.experimental.io_callback(on_host, forms, *values)

    return mlir.lower_fun(through_host, multiple_results=True)(context, *operands)


# ---- transformations ----


def _jvp(primitive: Any, arrays: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> Any:
    results = primitive.bind(*arrays, call=call)
    places = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    out_tangents: list[Any] = [internals.zero_tangent(result) for result in results]
    if places:
        moved = primitive.bind(*(tangents[i] for i in places), call=call.of(places).tangent())
        for i, tangent in zip(places, moved):
            out_tangents[i] = tangent
    return results, out_tangents


def _batch(
    primitive: Any, keeps_rows: bool, arrays: Sequence[Any], places: Sequence[Any], *, call: Call
) -> Any:
    """The mapped axis becomes the first, or the second where the first has the rows."""
    to = 1 if keeps_rows else 0
    if keeps_rows:
        mapped = [array.ndim - (place is not None) for array, place in zip(arrays, places)]
        _need_rows(call, [(0,) * dimensions for dimensions in mapped])
    moved = [
        array if place is None else jnp.moveaxis(array, place, to) for array, place in zip(arrays, places)
    ]
    return primitive.bind(*moved, call=call), [None if place is None else to for place in places]


Transposed = Callable[[Call, list[Any], list[Any]], list[Any]]


def _transpose(transposed: Transposed, gradients: Sequence[Any], *arrays: Any, call: Call) -> list[Any]:
    """Applies the transpose to the gradients that are there; the others are zeros on every rank."""
    places = [i for i, gradient in enumerate(gradients) if type(gradient) is not ad.Zero]
    results: list[Any] = [ad.Zero(array.aval) for array in arrays]
    if places:
        shapes = [arrays[i].aval.shape for i in places]
        for i, result in zip(places, transposed(call.of(places), [gradients[i] for i in places], shapes)):
            results[i] = result
    return results


def _need_linear(call: Call) -> None:
    if call.op not in (Average, Sum):
        raise UnsupportedError(
            f"'{call.names[0]}': only Average and Sum have a gradient, not {ReduceOp(call.op).name}"
        )


def _transposed_allreduce(call: Call, gradients: list[Any], shapes: list[Any]) -> list[Any]:
    return list(allreduce_p.bind(*gradients, call=call.gradient()))


def _transposed_allgather(call: Call, gradients: list[Any], shapes: list[Any]) -> list[Any]:
    return list(reducescatter_p.bind(*gradients, call=call.gradient(op=int(Average))))


def _transposed_broadcast(call: Call, gradients: list[Any], shapes: list[Any]) -> list[Any]:
    means = allreduce_p.bind(*gradients, call=call.gradient(op=int(Average), root_rank=0))
    is_root = numpy.bool_(_core.rank() == call.root_rank)
    # A choice of values, not of programs: the allreduce stays in the programs of all ranks.
    return [jnp.where(is_root, mean, jnp.zeros_like(mean)) for mean in means]


def _transposed_alltoall(call: Call, gradients: list[Any], shapes: list[Any]) -> list[Any]:
    return list(alltoall_p.bind(*gradients, call=call.gradient()))


def _transposed_reducescatter(call: Call, gradients: list[Any], shapes: list[Any]) -> list[Any]:
    size = call.set_size
    factor = call.prescale_factor * call.postscale_factor * (size if call.op == Sum else 1)
    most = [rows_of(0, size, shape[0]) for shape in shapes]
    padded = []
    for gradient, rows in zip(
        gradients, most
    ):  # an allgather inside of a program has as many rows everywhere
        missing = rows - gradient.shape[0]
        padded.append(
            jnp.pad(gradient, [(0, missing)] + [(0, 0)] * (gradient.ndim - 1)) if missing else gradient
        )
    plain = call.gradient(op=int(Average), prescale_factor=1.0, postscale_factor=1.0)
    gathered = allgather_p.bind(*padded, call=plain)
    results = []
    for each, shape, rows in zip(gathered, shapes, most):
        if size * rows != shape[0]:
            kept = [rank * rows + i for rank in range(size) for i in range(rows_of(rank, size, shape[0]))]
            each = each[numpy.array(kept, dtype=numpy.int32)]
        results.append(each if factor == 1 else each * numpy.asarray(factor).astype(each.dtype))
    return results


# ---- the primitives ----


def _make(
    collective: str,
    shapes: Callable[[Call, Sequence[Any]], list[Any]],
    transposed: Transposed,
    keeps_rows: bool = False,
    reduces: bool = False,
) -> Any:
    primitive: Any = Primitive(f"dabke_{collective}")
    primitive.multiple_results = True
    primitive.def_impl(lambda *arrays, call: direct.run(collective, call, arrays))

    def abstract(*arrays: Any, call: Call) -> list[Any]:
        results = shapes(call, [array.shape for array in arrays])
        return [ShapedArray(shape, array.dtype) for shape, array in zip(results, arrays)]

    def jvp(arrays: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> Any:
        if reduces:
            _need_linear(call)
        return _jvp(primitive, arrays, tangents, call=call)

    primitive.def_abstract_eval(abstract)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = functools.partial(_transpose, transposed)
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive, keeps_rows)
    instances.register(primitive)
    return primitive


allreduce_p = _make("allreduce", _same_shapes, _transposed_allreduce, reduces=True)
allgather_p = _make("allgather", _gathered_shapes, _transposed_allgather, keeps_rows=True)
broadcast_p = _make("broadcast", _same_shapes, _transposed_broadcast)
alltoall_p = _make("alltoall", _exchanged_shapes, _transposed_alltoall, keeps_rows=True)
reducescatter_p = _make(
    "reducescatter", _scattered_shapes, _transposed_reducescatter, keeps_rows=True, reduces=True
)


@functools.cache
def _prepare() -> None:
    """Makes JAX able to lower the primitives; once, before the first is bound."""
    ffi.load()
    instances.number_all()
    for primitive in (allreduce_p, allgather_p, broadcast_p, alltoall_p, reducescatter_p):
        collective = primitive.name.removeprefix("dabke_")
        internals.register_rule(primitive, functools.partial(_lower, collective), "cpu")
        internals.register_rule(primitive, functools.partial(_lower_by_host, collective), None)


def bind(primitive: Any, call: Call, arrays: Sequence[Any]) -> list[Any]:
    """The results of the collective on values of a program that is being traced.

    Raises:
        InvalidArgumentError: the program cannot carry a name.
    """
    collective = primitive.name.removeprefix("dabke_")
    check_names(collective, call.names)
    for name in call.names:
        if _BETWEEN_NAMES in name:
            raise InvalidArgumentError(
                f"{collective}: the name is {name!a}; in a program of JAX a name must be one line"
            )
    _prepare()
    return list(primitive.bind(*arrays, call=call))
