"""Exceptions of Dabke that come through JAX: a program that fails raises JAX's own class, whose text has the
status."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TypeVar

import jax

from .. import _core
from ..errors import DabkeError, from_status

__all__ = ["dabke_errors", "error_in", "synchronize"]

T = TypeVar("T")

_MARK = re.compile(r"\[dabke (\w+)\] ")  # ../../jax/errors.cc writes it


def error_in(error: BaseException) -> DabkeError | None:
    """The exception of Dabke that an exception of JAX carries, with the runtime's whole text; None where it
    has none."""
    text = str(error)
    mark = _MARK.search(text)
    number = _core.statuses().get(mark[1]) if mark else None
    return from_status(number, text[mark.end() :]) if mark and number is not None else None


@contextlib.contextmanager
def dabke_errors() -> Iterator[None]:
    """Raises what a collective of a program has failed with as Dabke's own exception, in place of JAX's.

        with hvd.dabke_errors():
            parameters, loss = step(parameters, batch)
            loss.block_until_ready()

    Raises:
        DabkeError: a collective has failed; the class shows how (``dabke.errors``). JAX's exception is its
            cause.
    """
    try:
        yield
    except DabkeError:
        raise
    except (
        Exception
    ) as error:  # a JaxRuntimeError; a ValueError where NumPy or a value of Python is made of the array
        ours = error_in(error)
        if ours is None:
            raise
        raise ours from error


def synchronize(tree: T) -> T:
    """Waits until all arrays of a pytree are there.

    Args:
        tree: a pytree of arrays, such as what a jitted step has returned.

    Returns:
        `tree`.

    Raises:
        DabkeError: a collective that made them has failed; the class shows how (``dabke.errors``).
    """
    with dabke_errors():
        jax.block_until_ready(tree)  # type: ignore[no-untyped-call,unused-ignore]
    return tree
