"""A tf.GradientTape whose gradients are reduced over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.options import AnySet
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from ..reduce_ops import Average
from .compression import Compression, Compressor
from .gradient_reducer import GradientReducer
from .naming import in_this_graph
from .traced import unconverted

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]

_Groups = int | Sequence[Sequence[Any]] | None


class _DistributedTape:
    """The methods that the wrapped tape's class gets on top. Made by ``DistributedGradientTape``."""

    _dabke_reducer: GradientReducer

    @unconverted
    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes gradients as tf.GradientTape does, of the same arguments, and reduces them over the ranks.

        Raises:
            DabkeError: the reduction has failed; in eager mode.
        """
        kwargs.pop("use_generic_names", None)  # of Horovod; ours never depend on those of variables
        own = super().gradient(target, sources, *args, **kwargs)  # type: ignore[misc]
        name = in_this_graph("tape") or "tape"
        reduced = self._dabke_reducer.reduce(name, tf.nest.flatten(own), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """This variable's gradient is this rank's own: it is not reduced."""
        self._dabke_reducer.register_local(source)

    def get_local_and_global_gradients(
        self, sources: Any, gradients: Any
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Pairs of a gradient and its source: those that are this rank's own, and those that are reduced.

        Args:
            sources: what ``gradient`` was called with.
            gradients: what it has returned.
        """
        pairs = list(zip(tf.nest.flatten(gradients), tf.nest.flatten(sources)))
        is_local = self._dabke_reducer.is_local
        return [pair for pair in pairs if is_local(pair[1])], [
            pair for pair in pairs if not is_local(pair[1])
        ]


def _distributed(gradtape: Any, reducer: GradientReducer) -> Any:
    if isinstance(gradtape, _DistributedTape):
        raise InvalidArgumentError("DistributedGradientTape: the tape is distributed already")
    kind: Any = type(type(gradtape).__name__, (_DistributedTape, type(gradtape)), {})
    result = kind.__new__(kind)
    result.__dict__.update(gradtape.__dict__)
    result._dabke_reducer = reducer
    return result


@unconverted
def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: _Groups = None,
    process_set: AnySet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tape whose ``gradient`` reduces over the ranks, also ``with
    hvd.DistributedGradientTape(tf.GradientTape()) as tape``.

    Args:
        gradtape: what it has recorded, and records, is that of the result.
        device_dense: has no effect.
        device_sparse: has no effect.
        compression: how gradients travel.
        sparse_as_dense: gradients that are tf.IndexedSlices travel as dense ones; else their rows are
            gathered.
        op: Average, Sum, Min, Max or Product.
        gradient_predivide_factor: with Average, divides before the sum instead of after it.
        num_groups: gradients travel in so many groups, in the sources' order; 0: in eager mode all as one
            group, and in a graph each by itself.
        groups: the same as a number, or the groups themselves as lists of variables; others travel as
            without.
        process_set: the ranks that train this model together. Others may call too, and train alone.
        scale_local_gradients: gradients that are not reduced are divided by the size of the set.

    Returns:
        an object of a subclass of the tape's class with the same name.

    Raises:
        InvalidArgumentError: the tape is distributed already, or groups make no sense.
        UnimplementedError: `op` is Adasum.
    """
    reducer = GradientReducer(
        "DistributedGradientTape",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    return _distributed(gradtape, reducer)


@unconverted
def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: _Groups = None,
    process_set: AnySet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """``DistributedGradientTape`` that leaves the gradients of some layers as they are on each rank.

    Errors and the arguments that are not here are those of ``DistributedGradientTape``.

    Args:
        local_layers: a Keras layer or a list of layers, which are built.
    """
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    layers = [] if local_layers is None else tf.nest.flatten(local_layers)
    for layer in layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape
