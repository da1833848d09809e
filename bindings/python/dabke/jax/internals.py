"""The names of JAX that are not public. No other module here uses one, so this file shows what a new JAX can
break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jax._src import core, pjit, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir  # type: ignore[attr-defined,unused-ignore]
from jax.extend.core import primitives
from jax.interpreters import ad

__all__ = [
    "JIT",
    "call_handler",
    "change_option",
    "current_block",
    "device_count",
    "is_initialized",
    "is_tracing",
    "lower_in_place",
    "lowering_rule",
    "primitives_with_programs",
    "programs_in",
    "register_rule",
    "shared_cache",
    "with_fresh_caches",
    "zero_tangent",
]

JIT: Any = getattr(pjit, "jit_p", None) or getattr(pjit, "pjit_p", None)  # the primitive of a jitted function
_OPTIONS = "mhlo.backend_config"  # the attribute of a lowered call that has its options


def is_initialized() -> bool:
    """True if JAX has devices, so that programs may run on them."""
    return bool(xla_bridge.backends_are_initialized())


def is_tracing() -> bool:
    """Returns True while a transformation of JAX (jit, grad, vmap, ...) is under way on this thread."""
    return not core.trace_state_clean()


def current_block() -> Any:
    """The block of operations that is being written, as a function or the body of a loop has one."""
    return ir.InsertionPoint.current.block


def call_handler(
    context: Any,
    target: str,
    options: dict[str, object],
    operands: tuple[Any, ...],
    links: tuple[Any, ...],
    in_place: dict[int, int],
) -> list[Any]:
    """Writes the call of a handler.

    Args:
        context: that of the lowering rule, whose shapes are those of the operands and results.
        target: the handler's name.
        options: what the handler gets besides.
        operands: arrays, row-major.
        links: one-byte operands that only order calls.
        in_place: the number of the operand in whose memory a result lies, for each such result.

    Returns:
        the results, and a link behind them.
    """

    def row_major(array: Any) -> list[int]:
        return list(reversed(range(len(array.shape))))

    def type_of(array: Any) -> Any:
        return ir.RankedTensorType.get(array.shape, mlir.dtype_to_ir_type(array.dtype))

    link_type = ir.RankedTensorType.get([1], ir.IntegerType.get_unsigned(8))
    operation = mlir.custom_call(
        target,
        result_types=[*map(type_of, context.avals_out), link_type],
        operands=[*operands, *links],
        backend_config={name: mlir.ir_attribute(value) for name, value in options.items()},
        has_side_effect=True,
        api_version=4,
        operand_output_aliases=in_place,
        operand_layouts=[*map(row_major, context.avals_in), *([0] for _ in links)],
        result_layouts=[*map(row_major, context.avals_out), [0]],
    )
    return list(operation.results)


def lower_in_place(context: Any, program: Any, operands: tuple[Any, ...]) -> Any:
    """Lowers the program of a jitted function as a part of its caller."""
    return mlir.lower_fun(core.jaxpr_as_fun(program), multiple_results=True)(context, *operands)


def device_count(context: Any) -> int:
    """The devices of the program that is being lowered."""
    axes = context.module_context.axis_context
    devices = getattr(axes, "num_devices", None)
    if devices is None and hasattr(axes, "mesh"):
        devices = axes.mesh.size
    return int(devices or 1)


def change_option(operation: Any, name: str, value: object) -> None:
    """Changes an option of a call of ours that has been lowered already."""
    changed = dict(_items_of(operation.attributes[_OPTIONS]))
    changed[name] = mlir.ir_attribute(value)
    operation.attributes[_OPTIONS] = ir.DictAttr.get(changed)


def _items_of(options: Any) -> Iterator[tuple[str, Any]]:
    for i in range(len(options)):
        yield options[i].name, options[i].attr


def programs_in(parameters: dict[str, Any]) -> Iterator[Any]:
    """The programs (jaxprs) among the parameters of a primitive."""
    for program in core.jaxprs_in_params(parameters):
        yield getattr(program, "jaxpr", program)


def primitives_with_programs() -> list[Any]:
    """The primitives whose lowerings JAX may keep and use at several places of a module."""
    names = (
        "call_p",
        "closed_call_p",
        "cond_p",
        "custom_jvp_call_p",
        "custom_vjp_call_p",
        "custom_vjp_call_jaxpr_p",
        "remat_p",
        "scan_p",
        "while_p",
    )
    found = [getattr(primitives, name) for name in names if hasattr(primitives, name)]
    return [*found, JIT]


def lowering_rule(primitive: Any) -> Callable[..., Any] | None:
    """JAX's own rule that lowers the primitive on every platform; None where it has none."""
    entry: Any = mlir._lowerings.get(primitive)
    rule: Callable[..., Any] | None = getattr(entry, "rule", entry)
    return rule


def register_rule(primitive: Any, rule: Callable[..., Any], platform: str | None = None) -> None:
    """Lowers the primitive by `rule`, anew at each place of a module. None: on every platform without a rule
    of its own."""
    if hasattr(mlir, "_uncacheable_primitives"):
        mlir.register_lowering(primitive, rule, platform=platform, cacheable=False)
    else:
        mlir.register_lowering(primitive, rule, platform=platform)


def shared_cache(context: Any) -> dict[Any, Any]:
    """The dictionary that all contexts of one module have in common."""
    return context.module_context.cached_primitive_lowerings  # type: ignore[no-any-return]


def with_fresh_caches(context: Any) -> Any:
    """The context with copies of the module's caches: what is lowered with it is not found again
    afterwards."""
    module = context.module_context
    fresh = {"cached_primitive_lowerings": dict(module.cached_primitive_lowerings)}
    if hasattr(module, "lowering_cache"):
        fresh["lowering_cache"] = dict(module.lowering_cache)
    return context.replace(module_context=module.replace(**fresh))


def zero_tangent(value: Any) -> Any:
    """The symbolic zero that is the tangent of a value."""
    type_of: Any = getattr(core, "typeof", None) or getattr(core, "get_aval", None)
    return ad.Zero(type_of(value).to_tangent_aval())
