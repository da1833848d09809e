"""Functions for threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any


def in_thread(
    target: Callable[..., Any],
    args: Sequence[Any] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Starts a thread that calls ``target(*args)``, and returns it. With `silent`, drops its exceptions."""

    def quietly(*arguments: Any) -> None:
        with contextlib.suppress(Exception):
            target(*arguments)

    thread = threading.Thread(
        target=quietly if silent else target, args=tuple(args), name=name, daemon=daemon
    )
    thread.start()
    return thread
