"""Kinds of values for TensorFlow and Keras: variables, models and optimizers, as arrays on the host.

Nothing here imports them: a variable has ``numpy()`` and ``assign()`` in both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InvalidArgumentError

__all__ = ["KerasModel", "KerasOptimizer", "Variables", "ready_optimizer"]


def _copied(variables: Sequence[Any], spare: Any) -> list[Any]:
    """Returns the values as arrays. The arrays of `spare` are used again if they fit."""
    old = spare if spare is not None and len(spare) == len(variables) else [None] * len(variables)
    return [_copy_of(variable.numpy(), reused) for variable, reused in zip(variables, old)]


def _copy_of(value: Any, spare: Any) -> Any:
    if spare is None or spare.shape != value.shape or spare.dtype != value.dtype or spare.ndim == 0:
        return value.copy()  # a scalar of NumPy, or an array
    spare[...] = value
    return spare


def _assigned(what: str, variables: Sequence[Any], values: Sequence[Any]) -> None:
    if len(variables) != len(values):
        raise InvalidArgumentError(
            f"{what} has {len(variables)} variables, and the commit {len(values)}; build the same on every "
            "rank before run"
        )
    for variable, value in zip(variables, values):
        variable.assign(value)


class Variables:
    """A list of variables."""

    name = "variables"

    def fits(self, value: Any) -> bool:
        return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_variable, value))

    def copy(self, value: Any, spare: Any) -> Any:
        return _copied(value, spare)

    def load(self, value: Any, copy: Any) -> Any:
        _assigned("the state", value, copy)
        return value

    def reset(self, value: Any) -> None:
        """Does nothing: variables do not depend on the ranks."""


def _is_variable(value: Any) -> bool:
    return hasattr(value, "assign") and hasattr(value, "numpy")


def _attach(model: Any) -> None:
    """Makes the variables have their present values. On JAX, ``fit`` keeps them elsewhere in an epoch."""
    synchronize: Callable[[], None] | None = getattr(model, "jax_state_sync", None)
    if synchronize is not None:
        synchronize()


class KerasModel:
    """A model of Keras: its weights, without metrics and the seeds of random layers."""

    name = "keras model"

    def fits(self, value: Any) -> bool:
        return hasattr(value, "weights") and hasattr(value, "trainable_variables") and hasattr(value, "built")

    def copy(self, value: Any, spare: Any) -> Any:
        _check_built(value)
        _attach(value)
        return _copied(value.weights, spare)

    def load(self, value: Any, copy: Any) -> Any:
        _attach(value)
        _assigned(f"the model '{value.name}'", value.weights, copy)
        return value

    def reset(self, value: Any) -> None:
        """Makes Keras trace the steps again if they scale local gradients by the number of ranks."""
        distribution = getattr(getattr(value, "optimizer", None), "_distribution", None)
        if distribution is None or not distribution.local:
            return
        for name in ("train_function", "test_function", "predict_function"):
            if hasattr(value, name):
                setattr(value, name, None)


class KerasOptimizer:
    """An optimizer of Keras: its variables, also the learning rate. Sums of gradients are dropped."""

    name = "keras optimizer"

    def fits(self, value: Any) -> bool:
        return hasattr(value, "apply") and hasattr(value, "build") and hasattr(value, "variables")

    def copy(self, value: Any, spare: Any) -> Any:
        if not value.built:
            raise InvalidArgumentError(
                f"the optimizer '{value.name}' is not built yet; call optimizer.build(variables) on every "
                "rank before run"
            )
        return _copied(self._variables_of(value), spare)

    def load(self, value: Any, copy: Any) -> Any:
        self.reset(value)
        _assigned(f"the optimizer '{value.name}'", self._variables_of(value), copy)
        return value

    def reset(self, value: Any) -> None:
        """Drops the gradients of passes that have not completed a step."""
        for holder in (value, getattr(value, "_rank_state", None)):
            drop = getattr(holder, "_drop_in_flight", None)  # of an optimizer of TensorFlow or Keras
            if drop is not None:
                drop()

    def _variables_of(self, optimizer: Any) -> list[Any]:
        state = getattr(optimizer, "_rank_state", None)
        with contextlib.nullcontext() if state is None else state.as_plain():
            return list(optimizer.variables)


def ready_optimizer(model: Any, optimizer: Any) -> Any:
    """Returns the optimizer for the state of a model, with all its variables; None: the model has none.

    Args:
        model: a model.
        optimizer: its optimizer; None: the one with which the model is compiled.

    Raises:
        InvalidArgumentError: the model is not built.
    """
    _check_built(model)
    found = getattr(model, "optimizer", None) if optimizer is None else optimizer
    if found is not None and not found.built:
        found.build(model.trainable_variables)
    return found


def _check_built(model: Any) -> None:
    if not model.built:
        raise InvalidArgumentError(
            f"the model '{model.name}' is not built yet; build it on every rank before its state is made, "
            "for example by keras.Input as its first layer"
        )
