"""The variables that a launcher has set in the environment."""

from __future__ import annotations

import os

from dabke._bootstrap.launchers import RANK_AND_SIZE


def get_env_rank_and_size() -> tuple[int, int]:
    """Returns the rank and the number of ranks, also before ``init``. Without a launcher they are 0 and 1."""
    for rank, size in RANK_AND_SIZE:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
