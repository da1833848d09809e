"""The reduction of an optimizer's gradients over the ranks, as its settings say."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from .._frontend.options import AnySet
from .._frontend.partners import trains_alone
from ..errors import InvalidArgumentError, UnimplementedError
from ..process_sets import set_id_of
from ..reduce_ops import Adasum, Average, Sum
from .backends import adapter
from .backends.adapter import Transfer

__all__ = ["Distribution", "distribution_of"]

_numbers: defaultdict[tuple[int, str], Iterator[int]] = defaultdict(itertools.count)  # by set and name


@dataclass(frozen=True)
class Distribution:
    """The settings of a distributed optimizer. Optimizers of one class share them.

    Attributes:
        name: the beginning of its operations' names.
        transfer: the arguments of its operations.
        passes: the number of calls of ``apply`` whose gradients are added before they are reduced.
        averages_passes: True to divide these sums by their number.
        sparse_as_dense: True to send sparse gradients as dense ones.
        group_count: the number of groups in which gradients travel, if `groups` is empty.
        groups: the groups, as lists of variables; all other gradients travel as one more group.
        scales_local: True to divide the gradients of local variables by the number of ranks.
        local: the local variables by their ids, whose gradients are not reduced. The program may add some.
    """

    name: str
    transfer: Transfer
    passes: int = 1
    averages_passes: bool = False
    sparse_as_dense: bool = False
    group_count: int = 1
    groups: tuple[tuple[Any, ...], ...] = ()
    scales_local: bool = True
    local: dict[int, Any] = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """True if no other rank reduces with this one."""
        return trains_alone(self.transfer.process_set)

    def next_name(self) -> str:
        """Returns the name of one more optimizer.

        Optimizers are numbered when they first reduce, so one that a single rank makes, as to load a file,
        does not change the names of the others. Each process set has a count of its own, because other ranks
        do not reduce there. Each name has one, too: a rank that comes later may use only some of the
        optimizers.
        """
        return f"{self.name}.{next(_numbers[self.transfer.process_set, self.name])}"

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any], name: str) -> list[Any]:
        """Returns the gradients, reduced over the ranks. Local ones are scaled only; None stays None.

        Args:
            gradients: one for each variable, the same variables on every rank.
            name: the optimizer's name, from ``next_name``.

        Raises:
            HorovodInternalError: the job has failed.
            MismatchError: the ranks have different gradients.
        """
        if self.is_alone:
            return list(gradients)
        result = list(gradients)
        is_local = [id(variable) in self.local for variable in variables]
        travelling = [i for i, local in enumerate(is_local) if not local]
        completed = adapter.complete([gradients[i] for i in travelling], [variables[i] for i in travelling])
        dense: list[int] = []
        for i, gradient in zip(travelling, completed):
            if gradient is None:
                continue
            result[i] = gradient
            if adapter.is_sparse(gradient) and not self.sparse_as_dense:
                result[i] = adapter.reduce_sparse(gradient, f"{name}.sparse_{i}", self.transfer)
                continue
            dense.append(i)
            if adapter.is_sparse(gradient):
                result[i] = adapter.to_dense(gradient)
        groups = self._groups_of(dense, variables)
        reduced = adapter.reduce_groups(
            [[result[i] for i in group] for group in groups],
            [name if len(groups) == 1 else f"{name}.group_{number}" for number in range(len(groups))],
            self.transfer,
        )
        for group, tensors in zip(groups, reduced):
            for i, tensor in zip(group, tensors):
                result[i] = tensor
        if self.scales_local and self.transfer.op == Average:
            size = _core.process_set_size(self.transfer.process_set)
            for i, local in enumerate(is_local):
                if local and result[i] is not None:
                    gradient = adapter.to_dense(result[i]) if adapter.is_sparse(result[i]) else result[i]
                    result[i] = gradient / size
        return result

    def _groups_of(self, dense: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Returns the groups of gradients, as lists of their indices."""
        if self.groups:
            group_of = {id(member): number for number, group in enumerate(self.groups) for member in group}
            groups: list[list[int]] = [[] for _ in range(len(self.groups) + 1)]
            for i in dense:
                groups[group_of.get(id(variables[i]), len(self.groups))].append(i)
        else:
            count = max(1, min(self.group_count, len(dense)))
            cuts = [len(dense) * i // count for i in range(count + 1)]
            groups = [dense[first:last] for first, last in zip(cuts, cuts[1:])]
        return [group for group in groups if group]


def distribution_of(
    call: str,
    name: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    passes: int,
    averages_passes: bool,
    num_groups: int,
    groups: int | Sequence[Sequence[Any]] | None,
    process_set: AnySet,
    scales_local: bool,
    local: Sequence[Any] = (),
) -> Distribution:
    """Checks the arguments of `call`, a public function, and returns its settings.

    Raises:
        InvalidArgumentError: an argument is not valid.
        UnimplementedError: `op` is Adasum.
    """
    if op == Adasum:
        raise UnimplementedError(f"{call}: Adasum is not supported yet; use Average")
    if op not in (Average, Sum):
        raise InvalidArgumentError(f"{call}: op must be Average or Sum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError(f"{call}: gradient_predivide_factor needs op=Average")
    if passes < 1:
        raise InvalidArgumentError(f"{call}: backward_passes_per_step must be at least 1")
    if num_groups < 0 or (isinstance(groups, int) and groups < 0):
        raise InvalidArgumentError(f"{call}: num_groups must not be negative")
    lists = () if groups is None or isinstance(groups, int) else tuple(tuple(group) for group in groups)
    members = [id(member) for group in lists for member in group]
    if len(set(members)) < len(members):
        raise InvalidArgumentError(f"{call}: a variable is in groups twice")
    return Distribution(
        name=name,
        transfer=Transfer(
            op=int(op),
            prescale_factor=1.0 / gradient_predivide_factor,
            postscale_factor=float(gradient_predivide_factor),
            compression=compression,
            process_set=set_id_of(process_set),
        ),
        passes=int(passes),
        averages_passes=averages_passes,
        sparse_as_dense=sparse_as_dense,
        group_count=max(1, groups if isinstance(groups, int) else num_groups),
        groups=lists,
        scales_local=scales_local,
        local={id(each): each for each in local},
    )
