"""The owner of the job. A job that torch.distributed has started ends with its world group.

A job that the program has started itself stays. So does an elastic job, whose next epoch begins from it.
"""

from __future__ import annotations

from typing import Any

from ... import epochs, job

__all__ = ["end_if_ours", "is_ours", "start"]

_ours = False


def start(*arguments: Any, **more: Any) -> None:
    """Calls ``dabke.init`` for torch.distributed."""
    global _ours
    job.init(*arguments, **more)
    _ours = True


def is_ours() -> bool:
    """Returns True if ``start`` has started the running job."""
    return _ours and job.is_initialized()


def end_if_ours() -> None:
    """Leaves the job if ``start`` has started it, unless it is elastic."""
    global _ours
    if is_ours():
        if epochs.is_elastic():
            return
        job.shutdown()
    _ours = False
