"""The process sets of groups."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _core, job

__all__ = ["set_of"]


def set_of(ranks: Sequence[int]) -> int:
    """Returns the process set of these ranks. All of them call this. Its own order is ascending."""
    members = sorted(ranks)
    if members == list(range(job.size())):
        return _core.WORLD
    handle = _core.add_process_set_among_members(members)
    handle.wait()
    return handle.process_set_id()
