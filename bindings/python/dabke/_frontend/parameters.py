"""The parameters of an optimizer: their names, and the groups in which their gradients travel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ..errors import InvalidArgumentError

__all__ = ["groups_of", "names_of"]

P = TypeVar("P")  # a framework's parameter, hashed by its identity


def names_of(call: str, parameters: Sequence[P], named: Iterable[tuple[str, P]] | None) -> dict[P, str]:
    """Returns the name of each parameter. Without `named` they are numbered in their order.

    Args:
        call: the public function, for messages.
        named: pairs of a name and a parameter, with all `parameters`.

    Raises:
        InvalidArgumentError: `named` has an item that is not a pair, or a name twice, or lacks a parameter.
    """
    if named is None:
        return {parameter: f"noname.{i}" for i, parameter in enumerate(parameters)}
    pairs = list(named)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise InvalidArgumentError(
            f"{call}: named_parameters must be pairs of a name and a parameter, "
            "as model.named_parameters() gives"
        )
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidArgumentError(f"{call}: named_parameters has these names twice: {', '.join(twice)}")
    known = {parameter: name for name, parameter in pairs}
    missing: list[Any] = [parameter for parameter in parameters if parameter not in known]
    if missing:
        shapes = ", ".join(str(tuple(parameter.shape)) for parameter in missing[:5])
        raise InvalidArgumentError(
            f"{call}: named_parameters lacks {len(missing)} of the optimizer's parameters, "
            f"of the shapes {shapes}"
        )
    return known


def groups_of(
    call: str, groups: int | Sequence[Sequence[P]] | None, parameters: list[P], kind: type[Any]
) -> list[list[P]]:
    """Returns the groups, each a list of parameters. A parameter is in at most one group.

    Args:
        call: the public function, for messages.
        groups: the number of groups, which get about the same number of parameters; or the groups themselves.
            None and 0: no groups.
        kind: the class of a parameter.

    Raises:
        InvalidArgumentError: a negative number, an item that is not a parameter, or a parameter that is in
            groups twice.
    """
    if groups is None or isinstance(groups, int):
        count = min(int(groups or 0), len(parameters))
        if count < 0:
            raise InvalidArgumentError(f"{call}: groups must not be negative")
        cuts = [len(parameters) * i // count for i in range(count + 1)] if count else [0]
        return [parameters[first:last] for first, last in zip(cuts, cuts[1:])]
    lists = [list(group) for group in groups]
    members = [member for group in lists for member in group]
    if any(not isinstance(member, kind) for member in members):
        raise InvalidArgumentError(f"{call}: groups must be a number, or lists of parameters")
    if len(set(members)) < len(members):
        raise InvalidArgumentError(f"{call}: a parameter is in groups twice")
    return [group for group in lists if group]
