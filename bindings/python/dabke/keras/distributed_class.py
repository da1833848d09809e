"""The class of a distributed optimizer: a subclass of the optimizer's own class, with the same name.

1. ``apply`` and ``stateless_apply`` reduce the gradients, then call those of the optimizer's class. So
   clipping, loss scales and the check for infinities see reduced gradients, which are equal on all ranks.
2. With several passes per step, these functions first add the gradients to variables of the optimizer. Only
   the last pass of a step reduces the sums and changes the weights.
3. The config, and the file of a model, have nothing of this class. Plain Keras reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ..epochs import drop_at_epoch_change
from ..errors import UnsupportedError
from .backends import adapter
from .reduction import Distribution

__all__ = ["Distributed", "RankState", "distributed_class", "is_distributed"]


class RankState:
    """The state of one distributed optimizer that its config and its files do not have.

    Attributes:
        variables: the variables with which the optimizer was built; empty with one pass per step.
        sums: the variables that add up gradients over passes, in the same order.
        passes: the variable that counts these passes; None with one pass per step.
        reduces: False while the gradients are reduced already, or if an optimizer around this one does it.
    """

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.sums: list[Any] = []
        self.passes: Any = None
        self.reduces = True
        self._is_hidden = False
        self._name: str | None = None
        drop_at_epoch_change(self)

    def name_in(self, distribution: Distribution) -> str:
        """Returns the name of the optimizer's operations."""
        if self._name is None:
            self._name = distribution.next_name()
        return self._name

    @property
    def own(self) -> list[Any]:
        """The variables that the optimizer has because it is distributed."""
        return [] if self.passes is None else [*self.sums, self.passes]

    def clear(self) -> None:
        """Drops the gradients of passes that have not completed a step."""
        for variable in self.own:
            variable.assign(keras.ops.zeros(variable.shape, dtype=variable.dtype))

    _drop_in_flight = clear  # after a change of the ranks

    @property
    def hidden(self) -> set[int]:
        """The ids of the variables that a file does not get."""
        return {id(each) for each in self.own} if self._is_hidden else set()

    @contextlib.contextmanager
    def as_reduced(self) -> Iterator[None]:
        """Makes ``apply`` take the gradients as they are."""
        self.reduces = False
        try:
            yield
        finally:
            self.reduces = True

    @contextlib.contextmanager
    def as_plain(self) -> Iterator[None]:
        """Hides the own variables."""
        self._is_hidden = True
        try:
            yield
        finally:
            self._is_hidden = False


class Distributed:
    """The additional methods of a distributed optimizer. ``distributed_class`` puts them before its class."""

    _distribution: Distribution
    _rank_state: RankState
    name: str
    built: bool
    _trainable_variables: list[Any]

    def register_local_var(self, var: Any) -> None:
        """Makes a variable local: its gradient is not reduced, so each rank trains its own.

        Args:
            var: a trainable variable of the model.
        """
        self._distribution.local[id(var)] = var

    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)  # type: ignore[misc]
        self._add_sums(variables)

    def _add_sums(self, variables: Sequence[Any]) -> None:
        """Adds the variables for gradients of several passes."""
        state: RankState = _state_of(self)
        if self._distribution.passes == 1 or state.passes is not None or not state.reduces:
            return
        this: Any = self
        state.variables = list(variables)
        state.sums = [
            this.add_variable_from_reference(variable, name="gradient_sum") for variable in state.variables
        ]
        state.passes = this.add_variable(shape=(), dtype="int32", initializer="zeros", name="passes")

    @property
    def variables(self) -> list[Any]:
        hidden = _state_of(self).hidden
        return [each for each in super().variables if id(each) not in hidden]  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        with _state_of(self).as_plain():
            super().save_own_variables(store)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        with _state_of(self).as_plain():
            super().load_own_variables(store)  # type: ignore[misc]

    # ---- one step ----

    def _reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        distribution = self._distribution
        if distribution.is_alone:
            return list(gradients)
        return distribution.reduce(gradients, variables, _state_of(self).name_in(distribution))

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Reduces the gradients over the ranks, and changes the weights as the wrapped optimizer does.

        Args:
            grads: the gradients of this rank, one for each variable; None where there is none.
            trainable_variables: the variables; None: those with which the optimizer was built.
        """
        state, gradients = _state_of(self), list(grads)
        plain: Any = super()
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        if not state.reduces or not gradients:
            plain.apply(gradients, trainable_variables)
            return
        variables = self._trainable_variables if trainable_variables is None else trainable_variables
        if self._distribution.passes == 1:
            reduced = self._reduce(gradients, variables)
            with state.as_reduced():
                plain.apply(reduced, trainable_variables)
            return
        if not self.built:
            with keras.name_scope(self.name):
                self.build(variables)
            self.built = True
        self._apply_passes(gradients, variables, plain)

    def _apply_passes(self, gradients: list[Any], variables: Sequence[Any], plain: Any) -> None:
        """Adds the gradients of a pass; at the last pass, reduces the sums and changes the weights."""
        state, passes = _state_of(self), self._distribution.passes
        sum_of = {id(variable): total for variable, total in zip(state.variables, state.sums)}
        kept = [sum_of[id(each)] for each in variables]
        sums = self._added(gradients, kept)
        done = keras.ops.add(state.passes, 1)

        def step() -> None:
            reduced = self._reduce(self._scaled(sums), variables)
            with state.as_reduced():
                plain.apply(reduced, list(variables))
            state.clear()

        def keep() -> None:
            for each, value in zip(kept, sums):
                if value is not None:
                    each.assign(value)
            state.passes.assign(done)

        adapter.branch(keras.ops.equal(done, passes), step, keep)

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """Does what ``apply`` does, and returns the changed values instead of assigning them.

        Args:
            optimizer_variables: the values of ``variables``.
            grads: as for ``apply``.
            trainable_variables: the values of the variables with which the optimizer was built.

        Returns:
            the new values, as (trainable_variables, optimizer_variables).
        """
        state, gradients = _state_of(self), list(grads)
        plain: Any = super()
        if not state.reduces or not self.built:
            return plain.stateless_apply(optimizer_variables, gradients, trainable_variables)
        if self._distribution.passes == 1:
            reduced = self._reduce(gradients, self._trainable_variables)
            with state.as_reduced():
                return plain.stateless_apply(optimizer_variables, reduced, trainable_variables)
        return self._passes_stateless(list(optimizer_variables), gradients, list(trainable_variables), plain)

    def _passes_stateless(
        self, values: list[Any], gradients: list[Any], trainable: list[Any], plain: Any
    ) -> Any:
        """Does what ``_apply_passes`` does, on values."""
        state = _state_of(self)
        place = {id(variable): i for i, variable in enumerate(self.variables)}
        places = [place[id(variable)] for variable in state.own]
        kept = [values[i] for i in places]
        sums = self._added(gradients, kept[:-1])
        done = kept[-1] + 1

        def with_own(own: Sequence[Any]) -> list[Any]:
            changed = list(values)
            for i, value in zip(places, own):
                changed[i] = keras.ops.cast(value, values[i].dtype)
            return changed

        def step() -> Any:
            cleared = with_own([keras.ops.zeros_like(each) for each in kept])
            reduced = self._reduce(self._scaled(sums), self._trainable_variables)
            with state.as_reduced():
                new, changed = plain.stateless_apply(cleared, reduced, trainable)
            return list(new), list(changed)

        def keep() -> Any:
            added = [old if new is None else new for old, new in zip(kept, sums)]
            return trainable, with_own([*added, done])

        return keras.ops.cond(keras.ops.equal(done, self._distribution.passes), step, keep)

    def _added(self, gradients: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
        """Returns the sums of the gradients and those of earlier passes; None where there is no gradient."""
        dense = [adapter.to_dense(each) if adapter.is_sparse(each) else each for each in gradients]
        return [None if new is None else keras.ops.add(old, new) for old, new in zip(kept, dense)]

    def _scaled(self, sums: Sequence[Any]) -> list[Any]:
        if not self._distribution.averages_passes:
            return list(sums)
        return [None if each is None else each / self._distribution.passes for each in sums]


def _state_of(optimizer: Any) -> RankState:
    """Returns the optimizer's state. It exists before the optimizer's own ``__init__`` has run."""
    found = optimizer.__dict__.get("_rank_state")
    if found is None:
        found = optimizer.__dict__["_rank_state"] = RankState()
    return found  # type: ignore[no-any-return]


def is_distributed(optimizer: Any) -> bool:
    """Returns True for an optimizer that ``DistributedOptimizer`` has made."""
    return isinstance(optimizer, Distributed)


def distributed_class(kind: Any, distribution: Distribution) -> Any:
    """Returns a subclass of an optimizer's class that reduces gradients, with the same name and config."""
    if not isinstance(kind, type) or not issubclass(kind, keras.optimizers.Optimizer):
        raise UnsupportedError(
            f"DistributedOptimizer takes an optimizer of Keras 3, not {getattr(kind, '__name__', kind)} of "
            f"{getattr(kind, '__module__', '?')}"
        )
    members = {
        "__doc__": kind.__doc__,
        "__module__": _public_module(kind),
        "__qualname__": kind.__qualname__,
        "_distribution": distribution,
    }
    made = type(kind.__name__, (Distributed, kind), members)
    _share_registration(kind, made)
    return made


def _public_module(kind: type[Any]) -> str:
    """Returns the module under which a file names the class. Files of one backend are read on another."""
    for each in kind.__mro__:
        public = getattr(keras.optimizers, each.__name__, None)
        if each.__name__ == kind.__name__ and public is each:
            return "keras.optimizers"
    return kind.__module__


def _share_registration(kind: type[Any], made: type[Any]) -> None:
    """Gives the class the name under which the program has registered the optimizer's class with Keras."""
    registered = keras.saving.get_registered_name(kind)
    package, found, name = registered.rpartition(">")
    if found:
        register = keras.saving.register_keras_serializable(package, name)
        register(made)
        register(kind)  # the last one is that which files give
