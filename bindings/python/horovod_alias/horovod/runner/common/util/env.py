"""What a launcher has put into the environment."""

from __future__ import annotations

import os

_NAMES = (('DABKE_RANK', 'DABKE_SIZE'), ('HOROVOD_RANK', 'HOROVOD_SIZE'), ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'),
          ('PMI_RANK', 'PMI_SIZE'))


def get_env_rank_and_size() -> tuple[int, int]:
    """The rank and the number of ranks, also before ``init``; 0 and 1 without a launcher."""
    for rank, size in _NAMES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
