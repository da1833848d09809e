"""What a launcher has put into the environment."""

from __future__ import annotations

import os

from dabke._bootstrap.launchers import RANK_AND_SIZE


def get_env_rank_and_size() -> tuple[int, int]:
    """The rank and the number of ranks, also before ``init``; 0 and 1 without a launcher."""
    for rank, size in RANK_AND_SIZE:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
