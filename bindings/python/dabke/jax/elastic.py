"""Elastic training with JAX: a state of pytrees.

    state = hvd.elastic.ObjectState(parameters=parameters, optimizer=optimizer_state, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < 1000:
            state.parameters, state.optimizer = step(state.parameters, state.optimizer, batch)
            state.step += 1
            if state.step % 10 == 0:
                state.commit()

    train(state)

A jitted function keeps the numbers that it has read while it was traced, such as ``size()``, and the shapes
of gathered arrays. A program with such a function registers ``jax.clear_caches`` as a reset callback.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy

from .._frontend import elastic
from .._frontend.elastic import HostsUpdatedInterrupt, State, run
from .._frontend.elastic.failures import register_translation
from .._frontend.elastic.kinds import PLAIN
from ..errors import HorovodInternalError
from .errors import error_in
from .optimizer import AccumulatedState

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "run"]

register_translation(error_in)


class _Key:
    """The data of a random key, whose class NumPy does not have."""

    def __init__(self, key: Any) -> None:
        self.data = numpy.array(jax.random.key_data(key))
        self.implementation = str(jax.random.key_impl(key))

    def key(self) -> Any:
        return jax.random.wrap_key_data(jnp.asarray(self.data), impl=self.implementation)


class _Host:
    """The copy of an array of JAX, on the host."""

    def __init__(self, array: Any) -> None:
        self.data = array


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


def _copied(leaf: Any, spare: Any) -> Any:
    if not _is_array(leaf):
        return PLAIN.copy(leaf, None)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return _Key(leaf)
    value = numpy.asarray(leaf)
    old = spare.data if isinstance(spare, _Host) else None
    if old is None or (old.shape, old.dtype) != (value.shape, value.dtype):
        return _Host(numpy.array(value))
    old[...] = value
    return _Host(old)


def _loaded(leaf: Any, like: Any) -> Any:
    """Returns the array of a copy, where `like` lies if that is an array of the same shape."""
    if isinstance(leaf, _Key):
        return leaf.key()
    if not isinstance(leaf, _Host):
        return PLAIN.load(None, leaf)
    where = like.sharding if _is_array(like) and like.shape == leaf.data.shape else None
    # JAX may use the memory of an array of NumPy, which a later commit writes.
    return jax.device_put(numpy.array(leaf.data), where)


def _is_accumulated(node: Any) -> bool:
    return isinstance(node, AccumulatedState)


def _without_passes(value: Any) -> Any:
    """Returns the value, in whose states of optimizers no pass of a step is done."""
    nodes, form = jax.tree_util.tree_flatten(value, is_leaf=_is_accumulated)
    if not any(map(_is_accumulated, nodes)):
        return value
    zeros = [
        node._replace(
            sums=jax.tree_util.tree_map(jnp.zeros_like, node.sums), passes=jnp.zeros_like(node.passes)
        )
        if _is_accumulated(node)
        else node
        for node in nodes
    ]
    return jax.tree_util.tree_unflatten(form, zeros)


def _is_copy(leaf: Any) -> bool:
    return isinstance(leaf, (_Host, _Key))


class _Tree:
    """A pytree of arrays and other objects. Its copy has the same structure."""

    name = "pytree"

    def fits(self, value: Any) -> bool:
        return any(map(_is_array, jax.tree_util.tree_leaves(value)))

    def copy(self, value: Any, spare: Any) -> Any:
        leaves, form = jax.tree_util.tree_flatten(value)
        old = jax.tree_util.tree_leaves(spare, is_leaf=_is_copy)
        pairs = zip(leaves, old if len(old) == len(leaves) else [None] * len(leaves))
        return jax.tree_util.tree_unflatten(form, [_copied(leaf, each) for leaf, each in pairs])

    def load(self, value: Any, copy: Any) -> Any:
        leaves, form = jax.tree_util.tree_flatten(copy, is_leaf=_is_copy)
        now = jax.tree_util.tree_leaves(value)
        pairs = zip(leaves, now if len(now) == len(leaves) else [None] * len(leaves))
        return jax.tree_util.tree_unflatten(form, [_loaded(leaf, each) for leaf, each in pairs])

    def reset(self, value: Any) -> None:
        """Does nothing: arrays do not depend on the ranks."""


class ObjectState(elastic.ObjectState):
    """A state whose attributes are pytrees of arrays, and any other objects.

    Copies of arrays are kept on the host, so a step may take the arrays as donated arguments.

    Args:
        kwargs: the attributes with their first values, such as ``step=0``. The same names on all ranks.

    Raises:
        InvalidArgumentError: a name begins with an underscore, or is that of a method.
    """

    _kinds = (_Tree(),)

    def reset(self) -> None:
        """Adapts the attributes to the new ranks, and drops gradients of passes that did not complete a step.

        A new rank would have those of another rank.
        """
        super().reset()
        for name in self._names:
            setattr(self, name, _without_passes(getattr(self, name)))
