"""Pytrees as lists of arrays with names: the path of each leaf, behind the name of the call."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Leaves", "leaves_of"]


class Leaves(NamedTuple):
    """The leaves of a pytree.

    Attributes:
        paths: one a leaf, such as "layers.0.kernel"; "" of a tree that is an array itself.
        arrays: the leaves, as arrays or values of the program that is being traced.
        rebuild: makes the same tree of other leaves.
    """

    paths: list[str]
    arrays: list[Any]
    rebuild: Callable[[list[Any]], Any]

    def names(self, base: str) -> tuple[str, ...]:
        """The names of the leaves' tensors, which differ from one another."""
        full = [f"{base}.{path}" if path else base for path in self.paths]
        if len(set(full)) == len(full):
            return tuple(full)
        seen: collections.Counter[str] = collections.Counter()
        names = []
        for name in full:  # {"a": {"b": x}, "a.b": y}
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
        return tuple(names)


def _text_of(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _path_of(keys: tuple[Any, ...]) -> str:
    return ".".join(map(_text_of, keys)).replace("\n", " ")


def leaves_of(tree: Any) -> Leaves:
    """The leaves of a pytree; numbers and NumPy's arrays among them become JAX's, by its rules for dtypes."""
    pairs, form = jax.tree_util.tree_flatten_with_path(tree)
    return Leaves(
        [_path_of(keys) for keys, _ in pairs],
        [jnp.asarray(leaf) for _, leaf in pairs],
        lambda arrays: jax.tree_util.tree_unflatten(form, arrays),
    )
