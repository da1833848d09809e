"""The reduction of a list of gradients, for tapes and optimizers.

In eager mode all dense gradients go as one group. In a graph each one is reduced as soon as it is there,
unless the program asks for groups. Gradients that are tf.IndexedSlices are gathered, each by itself.

Which gradients are None must not differ by rank: these take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.options import AnySet
from .._frontend.parameters import groups_of
from .._frontend.partners import trains_alone
from ..errors import InvalidArgumentError
from ..process_sets import set_id_of
from ..reduce_ops import Average
from .compression import Compressor
from .numbers import size_op
from .options import refuse_adasum
from .reduction import reduce_dense, reduce_slices

__all__ = ["GradientReducer", "key_of"]

_Groups = int | Sequence[Sequence[Any]] | None


def key_of(variable: Any) -> int:
    """The identity of a variable; one of Keras is that of TensorFlow inside it."""
    inner = getattr(variable, "_value", None)
    return id(inner if isinstance(inner, tf.Variable) else variable)


class GradientReducer:
    """The rules by which one tape or optimizer reduces its gradients."""

    def __init__(
        self,
        call: str,
        compression: type[Compressor],
        sparse_as_dense: bool,
        op: int,
        predivide: float,
        num_groups: int,
        groups: _Groups,
        process_set: AnySet,
        scale_local_gradients: bool,
    ) -> None:
        refuse_adasum(call, op)
        if predivide != 1.0 and op != Average:
            raise InvalidArgumentError(f"{call}: gradient_predivide_factor needs op=Average")
        if num_groups < 0:
            raise InvalidArgumentError(f"{call}: num_groups must not be negative")
        self._call = call
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._op = int(op)
        self._scales = (1.0 / predivide, float(predivide))
        self._groups: Any = groups if groups is not None else num_groups
        if not isinstance(self._groups, int):
            self._groups = [[key_of(variable) for variable in group] for group in self._groups]
        self._process_set = set_id_of(process_set)
        self._scale_local = scale_local_gradients
        self._local: set[int] = set()
        self._kept: list[Any] = []  # local variables, whose identities must stay theirs

    def register_local(self, variable: Any) -> None:
        """This variable's gradient is this rank's own."""
        self._local.add(key_of(variable))
        self._kept.append(variable)

    def is_local(self, variable: Any) -> bool:
        """Returns True if the variable's gradient is not reduced."""
        return key_of(variable) in self._local

    def reduce(self, name: str, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients of all ranks.

        Args:
            name: of all; each is ``allreduce.<name>_<i>of<count>``, i from 1.
            gradients: a tensor, tf.IndexedSlices or None for each variable.
            variables: whose gradients they are.

        Returns:
            a gradient for each variable; None where there was none.
        """
        results = [
            tf.convert_to_tensor(each)
            if self._sparse_as_dense and isinstance(each, tf.IndexedSlices)
            else each
            for each in gradients
        ]
        if trains_alone(self._process_set):
            return results
        names = [f"allreduce.{name}_{i}of{len(results)}" for i in range(1, len(results) + 1)]
        dense = []
        for i, each in enumerate(results):
            if each is None:
                continue
            if self.is_local(variables[i]):
                results[i] = self._scaled(each)
            elif isinstance(each, tf.IndexedSlices):
                results[i] = reduce_slices(names[i], each, self._op, self._scales, self._process_set)
            else:
                dense.append(i)
        for members in self._batches(dense, [key_of(variable) for variable in variables]):
            reduced = self._reduce_dense([names[i] for i in members], [results[i] for i in members])
            for i, each in zip(members, reduced):
                results[i] = each
        return results

    def _reduce_dense(self, names: list[str], tensors: list[Any]) -> list[tf.Tensor]:
        return reduce_dense(
            names,
            tensors,
            self._op,
            self._scales,
            self._process_set,
            self._compression,
            is_group=len(names) > 1,
        )

    def _batches(self, dense: list[int], keys: list[int]) -> list[list[int]]:
        """The gradients by their numbers, those together that are reduced as a group."""
        index_of = {keys[i]: i for i in dense}
        groups = groups_of(self._call, self._groups, [keys[i] for i in dense], int)
        grouped = [[index_of[key] for key in group if key in index_of] for group in groups]
        batches = [members for members in grouped if members]
        taken = {i for members in batches for i in members}
        rest = [i for i in dense if i not in taken]
        if not rest:
            return batches
        return batches + ([rest] if tf.executing_eagerly() else [[i] for i in rest])

    def _scaled(self, gradient: Any) -> Any:
        """A local gradient, which counts as much as one of an average over the ranks."""
        if not self._scale_local:
            return gradient
        size = size_op(self._process_set)
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(
                gradient.values / tf.cast(size, gradient.dtype), gradient.indices, gradient.dense_shape
            )
        return gradient / tf.cast(size, gradient.dtype)
