"""The names of tensors that the program does not name, and of a group's members.

An unnamed tensor is ``<collective>.noname.<n>``. n counts the unnamed calls of that collective in the
tensor's process set. So the name is the same on all ranks that submit in the same order.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..errors import InvalidArgumentError

__all__ = ["check_names", "forget_names", "group_names", "name_of", "prefixed_group_names", "prefixed_name"]

_unnamed: defaultdict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)


def forget_names() -> None:
    """Restarts all counts from 0, as every rank does when a job begins."""
    _unnamed.clear()


def name_of(name: str | None, collective: str, process_set: int) -> str:
    """Returns `name`, or the next name of an unnamed tensor."""
    return name if name else f"{collective}.noname.{next(_unnamed[collective, process_set])}"


def group_names(name: str | None, collective: str, process_set: int, count: int) -> list[str]:
    """Returns ``<name>.<i>`` for each of `count` members, i from 0."""
    group = name_of(name, collective, process_set)
    return [f"{group}.{i}" for i in range(count)]


# The names that the layers of frameworks use. They have Horovod's form, which its users find in timelines.


def prefixed_name(collective: str, name: str | None, process_set: int) -> str:
    """Returns ``<collective>.<name>``, or the next name of an unnamed tensor."""
    return f"{collective}.{name}" if name else name_of(None, collective, process_set)


def prefixed_group_names(collective: str, name: str | None, process_set: int, count: int) -> list[str]:
    """Returns ``<collective>.<name>_<i>of<count>`` for each of `count` members, i from 1."""
    group = prefixed_name(collective, name, process_set)
    return [f"{group}_{i}of{count}" for i in range(1, count + 1)]


def check_names(collective: str, names: Iterable[str]) -> None:
    """Refuses a name that C cannot take as a whole. For calls that the compiled part of a framework submits:
    the others are checked on their way to C.

    Raises:
        InvalidArgumentError: a name has a NUL character, where C would cut it, or has no UTF-8 form.
    """
    for name in names:
        if "\0" in name:
            raise InvalidArgumentError(
                f"{collective}: the name is {name!a}; it must not contain a NUL character"
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(
                f"{collective}: the name is {name!a}, which has no UTF-8 form; a string from outside must be "
                "decoded without surrogates"
            ) from None
