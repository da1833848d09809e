"""The part of elastic training that is the same for all frameworks. It is not implemented yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import DabkeError, UnimplementedError

__all__ = ["HostsUpdatedInterrupt", "not_there_yet"]


class HostsUpdatedInterrupt(DabkeError):
    """The job's hosts have changed. Nothing raises it yet.

    Args:
        skip_sync: True if the state need not be sent to the ranks again.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the job's hosts have changed")
        self.skip_sync = skip_sync


def not_there_yet(frontend: str, name: str) -> NoReturn:
    """Raises UnimplementedError for a name of ``<frontend>.elastic``."""
    raise UnimplementedError(
        f"{frontend}.elastic.{name}: elastic training is not supported yet; train without it, "
        "save checkpoints on rank 0, and restart the job from the last one"
    )
