"""The variables by which launchers number a process, for all that asks whether there is a launcher."""

from __future__ import annotations

import os

__all__ = ["RANK_AND_SIZE", "is_numbered", "launcher_variables"]

# dabkerun, its Horovod names, Open MPI, and the launchers that speak PMI.
RANK_AND_SIZE = (
    ("DABKE_RANK", "DABKE_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
# Describes a job as well, without a number: a store that its processes share.
_RENDEZVOUS = "DABKE_RENDEZVOUS"


def is_numbered() -> bool:
    """Whether one of these launchers has numbered this process."""
    return any(size in os.environ for _, size in RANK_AND_SIZE)


def launcher_variables() -> list[str]:
    """The variables that are set and not empty and that describe a job, without torchrun's."""
    known = [size for _, size in RANK_AND_SIZE]
    return [name for name in (*known, _RENDEZVOUS) if os.environ.get(name)]
