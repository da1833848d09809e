"""Gradients that are averaged over the ranks: by an optimizer of optax, or where they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._frontend.options import WORLD, AnySet
from ..compression import Compression
from ..errors import InvalidArgumentError
from ..reduce_ops import Average
from .collectives import allreduce

__all__ = ["AccumulatedState", "DistributedOptimizer", "value_and_grad"]


class AccumulatedState(NamedTuple):
    """The state of an optimizer that steps after several gradients.

    Attributes:
        inner: the state of the wrapped optimizer.
        sums: this rank's gradients, added up since its last step.
        passes: how many gradients these are.
    """

    inner: Any
    sums: Any
    passes: Any


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: AnySet = WORLD,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: int = Compression.default,
) -> Any:
    """An optimizer of optax whose gradients are reduced over the ranks before it sees them, all as one group.

    What comes before it in a chain sees this rank's gradients; what it wraps, such as clipping by the global
    norm, those of all ranks.

    Args:
        optimizer: an ``optax.GradientTransformation``, with or without extra arguments.
        name: of this optimizer, if a program has several that take gradients of the same paths. None:
            "gradients".
        op: the reduce operation of the gradients.
        backward_passes_per_step: how many gradients are added up on each rank before they are reduced and the
            optimizer steps; the updates of the others are zeros.
        average_aggregated_gradients: divides what was added up by `backward_passes_per_step`.
        process_set: the ranks that take part.
        prescale_factor: multiplies every element of the gradients.
        postscale_factor: multiplies every element of the reduced gradients.
        compression: how float32 travels between hosts, a ``dabke.Compression``.

    Returns:
        an ``optax.GradientTransformationExtraArgs``. Its state is that of `optimizer`, or an
        ``AccumulatedState``.

    Raises:
        InvalidArgumentError: `backward_passes_per_step` is less than 1.
    """
    import optax  # type: ignore[import-untyped,import-not-found,unused-ignore]

    passes = int(backward_passes_per_step)
    if passes < 1:
        raise InvalidArgumentError(
            f"DistributedOptimizer: backward_passes_per_step is {passes}, it must be 1 or more"
        )
    inner = optax.with_extra_args_support(optimizer)

    def reduced(gradients: Any) -> Any:
        return allreduce(
            gradients,
            op,
            name or "gradients",
            process_set,
            prescale_factor,
            postscale_factor,
            compression=compression,
        )

    def update(gradients: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return inner.update(reduced(gradients), state, params, **extra)

    if passes == 1:
        return optax.GradientTransformationExtraArgs(inner.init, update)
    step_every = _step_every(passes, average_aggregated_gradients, update)
    return optax.GradientTransformationExtraArgs(
        lambda params: _start(inner.init(params), params), step_every
    )


def _start(inner: Any, params: Any) -> AccumulatedState:
    return AccumulatedState(inner, jax.tree_util.tree_map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))


def _step_every(passes: int, averaged: bool, update: Callable[..., Any]) -> Callable[..., Any]:
    """The update that calls `update` with the sum of every `passes` gradients."""

    def accumulate(gradients: Any, state: AccumulatedState, params: Any = None, **extra: Any) -> Any:
        sums = jax.tree_util.tree_map(jnp.add, state.sums, gradients)
        count = state.passes + 1
        zeros = jax.tree_util.tree_map(jnp.zeros_like, sums)

        def step() -> Any:
            whole = jax.tree_util.tree_map(lambda each: each / passes, sums) if averaged else sums
            updates, inner = update(whole, state.inner, params, **extra)
            return updates, AccumulatedState(inner, zeros, jnp.zeros_like(count))

        def wait() -> Any:
            return zeros, AccumulatedState(state.inner, sums, count)

        return jax.lax.cond(count >= passes, step, wait)

    return accumulate


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    name: str | None = None,
    op: int = Average,
    process_set: AnySet = WORLD,
    **arguments: Any,
) -> Callable[..., Any]:
    """``jax.value_and_grad``, whose value and gradients are reduced over the ranks, as one group.

    With equal batches they are those of the ranks' batches as one. What `fun` returns besides, with
    `has_aux`, stays this rank's own.

    Args:
        fun: the function, which returns a scalar, and with `has_aux` something more.
        argnums: as in ``jax.value_and_grad``.
        has_aux: as in ``jax.value_and_grad``.
        name: of these gradients, if a program has several of the same paths. None: "gradients".
        op: the reduce operation.
        process_set: the ranks that take part.
        arguments: further ones of ``jax.value_and_grad``.

    Returns:
        a function of the arguments of `fun`, which returns what that of ``jax.value_and_grad`` does.
    """
    local = jax.value_and_grad(fun, argnums, has_aux, **arguments)

    def global_value_and_grad(*args: Any, **kwargs: Any) -> Any:
        value, gradients = local(*args, **kwargs)
        loss = value[0] if has_aux else value
        sent = {"value": loss, "grad": gradients}
        reduced = allreduce(sent, op, name or "gradients", process_set)
        return ((reduced["value"], value[1]) if has_aux else reduced["value"]), reduced["grad"]

    return global_value_and_grad
