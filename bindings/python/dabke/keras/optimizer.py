"""Optimizers whose gradients are reduced over the ranks before the weights change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from .. import _core
from .._frontend.options import AnySet
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from ..reduce_ops import Average
from . import loss_scale
from .backends import adapter
from .distributed_class import RankState, distributed_class, is_distributed
from .reduction import Distribution, distribution_of

__all__ = ["DistributedOptimizer", "PartialDistributedOptimizer", "wrap"]

Compression = adapter.layer.Compression
_Groups = int | Sequence[Sequence[Any]] | None


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: _Groups = None,
    process_set: AnySet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps an optimizer: its gradients are reduced over the ranks before the weights change.

    ``fit``, ``apply_gradients``, ``apply`` and ``stateless_apply`` all reduce. Clipping follows the
    reduction, so ``global_clipnorm`` clips the joined batch's gradient.

    Args:
        optimizer: an optimizer of Keras 3, also a LossScaleOptimizer. The result shares its variables; do not
            use both. Its class is a subclass of the optimizer's class, with the same name and config.
        name: the beginning of the names of its operations; None: ``Distributed`` and the class's name.
        device_dense: ignored; Horovod has it.
        device_sparse: ignored; Horovod has it.
        compression: the form in which gradients travel; see ``Compression``.
        sparse_as_dense: True to send sparse gradients as dense ones; else their rows are gathered.
        gradient_predivide_factor: with Average, the part of the division that comes before the sum instead of
            after it.
        op: Average or Sum.
        backward_passes_per_step: the number of batches whose gradients are added before they are reduced. The
            optimizer's ``iterations`` counts reduced steps.
        average_aggregated_gradients: True to divide the sum over these batches by their number.
        num_groups: the number of groups in which gradients travel, in the order of the variables; 0: one.
        groups: a number like `num_groups`, or the groups as lists of variables; other gradients travel as
            one more group.
        process_set: the ranks that train this model together. Other ranks may call, too, and train alone.
        scale_local_gradients: with Average, True to divide the gradients of local variables by the number of
            ranks. ``register_local_var`` makes a variable local.

    Returns:
        the optimizer, with the additional method ``register_local_var``.

    Raises:
        InvalidArgumentError: an argument is not valid, or the optimizer is distributed already.
        UnimplementedError: `op` is Adasum.
        UnsupportedError: the optimizer is not one of Keras 3.
    """
    settings = distribution_of(
        "DistributedOptimizer",
        name or f"Distributed{type(optimizer).__name__}",
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    return wrap("DistributedOptimizer", optimizer, settings)


def PartialDistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: _Groups = None,
    process_set: AnySet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Works like ``DistributedOptimizer``, but the gradients of some layers are not reduced.

    Other arguments, the result and errors are those of ``DistributedOptimizer``.

    Args:
        local_layers: a layer or a list of layers, which are built. Each rank trains its own weights of them.
    """
    layers = [] if local_layers is None else local_layers
    layers = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    unbuilt = [each.name for each in layers if not each.built]
    if unbuilt:
        raise InvalidArgumentError(
            f"PartialDistributedOptimizer: the local layers {', '.join(unbuilt)} have no variables yet; "
            "build the model first"
        )
    settings = distribution_of(
        "PartialDistributedOptimizer",
        name or f"PartialDistributed{type(optimizer).__name__}",
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        0,
        groups,
        process_set,
        scale_local_gradients,
        [variable for layer in layers for variable in layer.trainable_variables],
    )
    return wrap("PartialDistributedOptimizer", optimizer, settings)


def wrap(call: str, optimizer: Any, distribution: Distribution) -> Any:
    """Returns a distributed optimizer that shares the variables of a plain one.

    Args:
        call: the public function, for messages.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    _core.size()
    if is_distributed(optimizer) or is_distributed(getattr(optimizer, "inner_optimizer", None)):
        raise InvalidArgumentError(f"{call}: the optimizer is distributed already")
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if distribution.passes > 1 and getattr(inner, "gradient_accumulation_steps", None):
        raise InvalidArgumentError(
            f"{call}: the optimizer adds up the gradients of {inner.gradient_accumulation_steps} steps by "
            "gradient_accumulation_steps; use that or backward_passes_per_step, not both"
        )
    loss_scale.install()
    kind = distributed_class(type(optimizer), distribution)
    result = kind.__new__(kind)
    result.__dict__.update(optimizer.__dict__)
    result.__dict__["_rank_state"] = RankState()
    if result.built:
        with keras.name_scope(result.name):
            result._add_sums(inner._trainable_variables)
    return result
