"""An optimizer whose gradients are reduced over the ranks before it applies them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.options import AnySet
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from ..reduce_ops import Average
from .compression import Compression, Compressor
from .gradient_aggregation import LocalGradientAggregationHelper
from .gradient_reducer import GradientReducer
from .traced import unconverted

__all__ = ["DistributedOptimizer"]

_Groups = int | Sequence[Sequence[Any]] | None
_numbers = itertools.count()  # optimizers are made in the same order on all ranks


class _Distributed:
    """The parts that both kinds of optimizers share."""

    _dabke_reducer: GradientReducer
    _dabke_aggregation: LocalGradientAggregationHelper

    def register_local_var(self, variable: Any) -> None:
        """This variable's gradient is this rank's own: it is not reduced."""
        self._dabke_reducer.register_local(variable)

    def _drop_in_flight(self) -> None:
        self._dabke_aggregation._drop_in_flight()


class _DistributedKeras(_Distributed):
    """The methods that the class of an optimizer of Keras 3 gets on top."""

    @unconverted
    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Applies the gradients of all ranks as the wrapped optimizer does."""
        optimizer: Any = self
        if not optimizer.built and trainable_variables is not None:
            with tf.init_scope():
                optimizer.build(list(trainable_variables))
        if trainable_variables is None:
            variables = list(optimizer._trainable_variables)
        else:
            variables = list(trainable_variables)
        helper = self._dabke_aggregation
        reduced = helper.compute_gradients(list(grads), variables)
        base: Any = super()
        return helper.apply_gradients(lambda: base.apply(reduced, variables))


class _DistributedV1(_Distributed):
    """The methods that the class of an optimizer of tf.compat.v1 gets on top."""

    @unconverted
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Computes gradients as the wrapped optimizer does, and reduces them over the ranks."""
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        return list(zip(self._dabke_aggregation.compute_gradients(gradients, variables), variables))

    @unconverted
    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Applies gradients as the wrapped optimizer does, in the last pass of a step alone."""
        base: Any = super()
        return self._dabke_aggregation.apply_gradients(lambda: base.apply_gradients(*args, **kwargs))


def _base_for(optimizer: Any) -> type[_Distributed]:
    """The methods for this kind of optimizer."""
    if isinstance(optimizer, _Distributed):
        raise InvalidArgumentError("DistributedOptimizer: the optimizer is distributed already")
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _DistributedV1
    if all(hasattr(optimizer, name) for name in ("apply", "build", "get_config", "built")):
        return _DistributedKeras
    raise InvalidArgumentError(
        "DistributedOptimizer: expected an optimizer of Keras 3 or of tf.compat.v1.train, "
        f"got {type(optimizer).__name__}; optimizers of tf_keras are not supported: unset TF_USE_LEGACY_KERAS"
    )


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: _Groups = None,
    process_set: AnySet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The optimizer, reducing gradients over the ranks before it applies them.

    Args:
        optimizer: of Keras 3, or of tf.compat.v1.train in eager mode or a tf.function. Its state is shared
            with the result.
        name: of its gradients; they are ``allreduce.<name>_<i>of<count>``, i from 1. None: numbered, so all
            ranks make their optimizers in the same order.
        use_locking: has no effect.
        device_dense: has no effect.
        device_sparse: has no effect.
        compression: how gradients travel.
        sparse_as_dense: gradients that are tf.IndexedSlices travel as dense ones; else their rows are
            gathered.
        backward_passes_per_step: gradients of so many passes are added before they are reduced; others change
            nothing.
        op: Average, Sum, Min, Max or Product.
        gradient_predivide_factor: with Average, divides before the sum instead of after it.
        average_aggregated_gradients: sums of several passes are divided by the number of passes.
        num_groups: gradients travel in so many groups, in the variables' order; 0: in eager mode all as one
            group, and in a graph each by itself.
        groups: the same as a number, or the groups themselves as lists of variables; others travel as
            without.
        process_set: the ranks that train this model together. Others may call too, and train alone.
        scale_local_gradients: gradients that are not reduced are divided by the size of the set.

    Returns:
        an object of a subclass of the optimizer's class with the same name, with ``register_local_var``
        besides.

    Raises:
        InvalidArgumentError: another kind of optimizer, or a distributed one; groups or passes that make no
            sense.
        UnimplementedError: `op` is Adasum.
    """
    base = _base_for(optimizer)
    reducer = GradientReducer(
        "DistributedOptimizer",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    label = name or f"optimizer.{next(_numbers)}"
    helper = LocalGradientAggregationHelper(
        backward_passes_per_step,
        lambda gradients, variables: reducer.reduce(label, gradients, variables),
        sparse_as_dense,
        average_aggregated_gradients,
    )
    kind: Any = type(type(optimizer).__name__, (base, type(optimizer)), {})
    result = object.__new__(kind)
    result.__dict__.update(optimizer.__dict__)
    result.__dict__.update(_dabke_reducer=reducer, _dabke_aggregation=helper)
    return result
