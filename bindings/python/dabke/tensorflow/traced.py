"""AutoGraph, which rewrites the functions that a program traces, and leaves ours as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import DabkeError

__all__ = ["unconverted"]

F = TypeVar("F", bound=Callable[..., Any])

# Otherwise AutoGraph raises an error of a class of its own in place of ours.
setattr(DabkeError, "ag_pass_through", True)


def unconverted(function: F) -> F:
    """Has AutoGraph call the function as it is: rewriting what it calls takes most of the time of a trace.

    The attribute is that of tf.autograph.experimental.do_not_convert, whose wrapper costs each eager call
    something.
    """
    setattr(function, "autograph_info__", {})
    return function
