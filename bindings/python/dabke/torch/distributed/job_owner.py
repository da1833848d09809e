"""The owner of the job: one that torch.distributed has started ends with its world group; a program's own stays."""

from __future__ import annotations

from typing import Any

from ... import job

__all__ = ["end_if_ours", "is_ours", "start"]

_ours = False


def start(*arguments: Any, **more: Any) -> None:
    """``dabke.init``, for torch.distributed."""
    global _ours
    job.init(*arguments, **more)
    _ours = True


def is_ours() -> bool:
    """Whether the running job is one that ``start`` has started."""
    return _ours and job.is_initialized()


def end_if_ours() -> None:
    """Leaves a job that ``start`` has started."""
    global _ours
    if is_ours():
        job.shutdown()
    _ours = False
