"""Gradients of several backward passes, which are added on each rank before they are reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.options import AnySet
from ..epochs import drop_at_epoch_change
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from .traced import unconverted

__all__ = ["LocalGradientAggregationHelper"]

Reduce = Callable[[list[Any], list[Any]], list[Any]]


class LocalGradientAggregationHelper:
    """The sums of one optimizer's gradients.

    1. ``compute_gradients`` adds gradients to the sums. In the last pass of a step it reduces the sums and
       empties them.
    2. ``apply_gradients`` calls its function in that pass alone.

    Both work in eager mode and in a tf.function, whose conditional they need. After a change of the ranks,
    the sums are empty, and passes are counted from 0 on every rank.

    Args:
        backward_passes_per_step: the passes of a step.
        allreduce_func: gives the reduced gradients for the gradients and their variables.
        sparse_as_dense: has no effect: sums are dense.
        average_aggregated_gradients: whether the sums are divided by the number of passes.
        rank: has no effect.
        optimizer_type: has no effect.
        process_set: has no effect; `allreduce_func` has its own.
        scale_local_gradients: has no effect; `allreduce_func` has its own.

    Raises:
        InvalidArgumentError: there is less than one pass.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
        rank: int | None = None,
        optimizer_type: Any = None,
        process_set: AnySet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        if backward_passes_per_step < 1:
            raise InvalidArgumentError("backward_passes_per_step must be at least 1")
        self._passes = backward_passes_per_step
        self._reduce = allreduce_func
        self._average = average_aggregated_gradients
        self._counter: Any = None
        self._sums: list[Any] = []  # a variable for each gradient, or None
        drop_at_epoch_change(self)

    def _drop_in_flight(self) -> None:
        """Drops the gradients of passes that have not completed a step."""
        if self._counter is None:
            return
        with tf.init_scope():
            self._counter.assign(0)
            self._empty_sums()

    def _empty_sums(self) -> None:
        for total in self._sums:
            if total is not None:
                total.assign(tf.zeros_like(total))

    def _make_sums(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        with tf.init_scope():
            self._counter = tf.Variable(0, dtype=tf.int32, trainable=False, name="backward_passes")
            for gradient, variable in zip(gradients, variables):
                zeros = None if gradient is None else tf.zeros(variable.shape, gradient.dtype)
                self._sums.append(None if zeros is None else tf.Variable(zeros, trainable=False))

    def _is_last_pass(self) -> Any:
        return tf.equal(self._counter, self._passes)

    @unconverted
    def compute_gradients(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Adds the gradients.

        Args:
            gradients: a tensor, tf.IndexedSlices or None for each variable; None for the same ones in every
                pass.
            variables: whose gradients they are.

        Returns:
            in the last pass the reduced sums, as tensors; in others what is of no use.

        Raises:
            InvalidArgumentError: other gradients are None than in the first pass.
        """
        if self._passes == 1:
            return self._reduce(list(gradients), list(variables))
        if self._counter is None:
            self._make_sums(gradients, variables)
        if [each is None for each in gradients] != [each is None for each in self._sums]:
            raise InvalidArgumentError(
                "backward_passes_per_step: other gradients are None than in the first pass"
            )
        for total, gradient in zip(self._sums, gradients):
            if total is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        self._counter.assign_add(1)
        own = list(variables)
        return self._choose(lambda: self._reduced(own), lambda: [self._value(total) for total in self._sums])

    @staticmethod
    def _value(total: Any) -> Any:
        return None if total is None else tf.convert_to_tensor(total)

    def _reduced(self, variables: list[Any]) -> list[Any]:
        values = [self._value(total) for total in self._sums]
        if self._average:
            values = [
                None if value is None else value / tf.cast(self._passes, value.dtype) for value in values
            ]
        reduced = [
            None if each is None else tf.convert_to_tensor(each) for each in self._reduce(values, variables)
        ]
        self._empty_sums()
        return reduced

    def _choose(self, last: Callable[[], list[Any]], other: Callable[[], list[Any]]) -> list[Any]:
        """The result of `last` in the last pass of a step, and of `other` in all others."""
        if tf.executing_eagerly():
            return last() if bool(self._is_last_pass()) else other()
        present = [i for i, total in enumerate(self._sums) if total is not None]
        results: list[Any] = [None] * len(self._sums)
        found = tf.cond(
            self._is_last_pass(),
            lambda: [each for each in last() if each is not None],
            lambda: [each for each in other() if each is not None],
        )
        for i, each in zip(present, tf.nest.flatten(found)):
            results[i] = each
        return results

    @unconverted
    def apply_gradients(self, apply_grads_closure: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        """Calls the function in the last pass of a step, and starts the next one.

        Args:
            apply_grads_closure: applies what ``compute_gradients`` has returned.

        Returns:
            what the function returns in eager mode, or with one pass a step; else None.
        """
        if self._passes == 1 or self._counter is None:
            return apply_grads_closure()
        if tf.executing_eagerly():
            if not bool(self._is_last_pass()):
                return None
            self._counter.assign(0)
            return apply_grads_closure()

        def step() -> tf.Tensor:
            apply_grads_closure()
            self._counter.assign(0)
            return tf.constant(True)

        tf.cond(self._is_last_pass(), step, lambda: tf.constant(False))
        return None
