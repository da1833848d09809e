"""The kinds of values in a state: how a value is copied for a commit, and set from such a copy.

A framework adds kinds of its own. The kind of an attribute is the first that fits its present value.
"""

from __future__ import annotations

import copy as copies
from typing import Any, NamedTuple, Protocol

__all__ = ["PLAIN", "Copy", "Kind"]


class Kind(Protocol):
    """The functions of a state on values of one kind.

    Attributes:
        name: the name of the kind, equal on all ranks. A copy travels with it.
    """

    name: str

    def fits(self, value: Any) -> bool:
        """Returns True if the value is of this kind."""

    def copy(self, value: Any, spare: Any) -> Any:
        """Returns a copy that later changes of the value do not reach. A pickle can hold it.

        Args:
            value: the present value.
            spare: an older copy, whose memory may be used again; None: there is no such copy.
        """

    def load(self, value: Any, copy: Any) -> Any:
        """Sets the value from a copy. Later changes of the value must not reach the copy.

        Returns:
            the value for the attribute: the same object, or a new one.
        """

    def reset(self, value: Any) -> None:
        """Adapts the value to the new ranks, after a change and after the state is equal everywhere."""


class Copy(NamedTuple):
    """The copy of an attribute, with the name of its kind."""

    kind: str
    data: Any


_UNCHANGING = (int, float, bool, str, bytes, type(None))


class _Plain:
    """Any object that can be copied."""

    name = "object"

    def fits(self, value: Any) -> bool:
        return True

    def copy(self, value: Any, spare: Any) -> Any:
        return value if type(value) in _UNCHANGING else copies.deepcopy(value)

    def load(self, value: Any, copy: Any) -> Any:
        return copy if type(copy) in _UNCHANGING else copies.deepcopy(copy)

    def reset(self, value: Any) -> None:
        """Does nothing."""


PLAIN: Kind = _Plain()
