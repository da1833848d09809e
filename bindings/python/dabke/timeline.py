"""The timeline of the running job, and labels of the program's own in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Union

from . import _core

__all__ = ["annotate", "mark_step", "start_timeline", "stop_timeline"]


def start_timeline(file_path: Union[str, "os.PathLike[str]"], mark_cycles: bool = False) -> None:
    """Starts writing the timeline of all ranks (docs/timeline.md) to `file_path` while the job runs.

    One rank's call is for all; where every rank calls, each names the same path.
    """
    _core.start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Stops writing it; the file is whole then."""
    _core.stop_timeline()


@contextlib.contextmanager
def annotate(name: str) -> Iterator[None]:
    """A span with this name on the calling thread's row: ``with annotate("forward"): ...``, or ``@annotate("forward")``.

    Passed over outside a job, and while no timeline is written.
    """
    recorded = _core.is_initialized()
    if recorded:
        _core.annotate_begin(name)
    try:
        yield
    finally:
        if recorded and _core.is_initialized():
            _core.annotate_end()


def mark_step(step: int) -> None:
    """The end of training step number `step`."""
    _core.mark_step(step)
