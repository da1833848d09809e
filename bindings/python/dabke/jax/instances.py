"""The calls of a program that is being lowered: their numbers, their order, and whether there is one alone.

A call's name is its own or its pytree's path, and "#<n>": n counts the calls of that name in the program, in
its order. The same program gives the same numbers on every rank, so two calls never meet by mistake, in
whatever order they run.

JAX traces a function that a program calls twice only once, lowers it once, and calls the result twice. The
two calls would share their names. So a function with a collective of ours is lowered at each of its places
(`number_all`). A jitted one becomes a part of its caller. Anything else that holds a program, such as a loop,
is lowered anew. A loop keeps its one place: XLA runs its turns one after the other. The compiled part finds a
name at two places all the same, and refuses it (../../jax/instances.h).

Calls of one function are linked by a data dependence, each to the one before. XLA orders what is independent
as it likes, and in small programs waits for each call before it begins the next. It could choose another
order where a rank's program is another one, because only rank 0 reads a result, say; then every rank would
wait for another call.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy

from . import internals

__all__ = ["last_link", "note_lowered", "number_all", "numbered", "register"]

_CALLS = "dabke.jax: the calls of this program"

_ours: set[Any] = set()


@dataclasses.dataclass
class _Calls:
    """The calls that have been lowered: how many of each name, the first of all, and the last link of each
    function."""

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    first: Any = None
    links: list[tuple[Any, Any]] = dataclasses.field(
        default_factory=list
    )  # of a block of operations, and a value


_known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def register(primitive: Any) -> None:
    """Counts the calls of this primitive of ours."""
    _ours.add(primitive)


def _calls_of(context: Any) -> _Calls:
    calls: _Calls = internals.shared_cache(context).setdefault(_CALLS, _Calls())
    return calls


def numbered(context: Any, names: tuple[str, ...]) -> list[str]:
    """The names with the number of this call among those of the program that is being lowered."""
    counts = _calls_of(context).counts
    number = max(counts[name] for name in names)
    for name in names:
        counts[name] = number + 1
    return [f"{name}#{number}" for name in names]


def last_link(context: Any) -> Any:
    """The link of the last call in the function that is being lowered; None before the first."""
    block = internals.current_block()
    return next((link for each, link in _calls_of(context).links if each == block), None)


def note_lowered(context: Any, operation: Any, link: Any) -> None:
    """Notes a call that was lowered with the option "alone" as 1. That is right for the first, as long as
    there is no second. `link` is its result for the next call."""
    calls = _calls_of(context)
    block = internals.current_block()
    calls.links = [(each, value) for each, value in calls.links if each != block] + [(block, link)]
    if calls.first is None:
        calls.first = operation
        return
    for each in (calls.first, operation):
        internals.change_option(each, "alone", numpy.int32(0))


def _has_collective(program: Any) -> bool:
    found = _known.get(program)
    if found is None:
        found = any(
            equation.primitive in _ours or any(map(_has_collective, internals.programs_in(equation.params)))
            for equation in program.eqns
        )
        _known[program] = found
    return found


def _at_each_place(rule: Callable[..., Any], is_jit: bool) -> Callable[..., Any]:
    """The lowering rule, which keeps nothing of programs with collectives of ours."""

    @functools.wraps(rule)
    def lower(context: Any, *operands: Any, **parameters: Any) -> Any:
        if not any(map(_has_collective, internals.programs_in(parameters))):
            return rule(context, *operands, **parameters)
        _calls_of(context)  # before the caches are copied, so that the copies share it
        if is_jit:
            return internals.lower_in_place(context, parameters["jaxpr"], operands)
        fresh = internals.with_fresh_caches(context)
        results = rule(fresh, *operands, **parameters)
        if fresh.tokens_out is not None:
            context.set_tokens_out(fresh.tokens_out)
        return results

    return lower


@functools.cache
def number_all() -> None:
    """Lowers programs with collectives of ours at each of their places from now on. Called before the first
    is traced."""
    for primitive in internals.primitives_with_programs():
        rule = internals.lowering_rule(primitive)
        if rule is not None:
            internals.register_rule(primitive, _at_each_place(rule, primitive is internals.JIT))
