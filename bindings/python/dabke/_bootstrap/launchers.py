"""The variables by which launchers number a process. They show whether a launcher has started the process."""

from __future__ import annotations

import os

__all__ = ["RANK_AND_SIZE", "is_numbered", "launcher_variables"]

# dabkerun, its Horovod names, Open MPI, and launchers with PMI.
RANK_AND_SIZE = (
    ("DABKE_RANK", "DABKE_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
# This variable also describes a job, but without a number: a store that its processes share.
_RENDEZVOUS = "DABKE_RENDEZVOUS"


def is_numbered() -> bool:
    """Returns True if one of these launchers has numbered this process."""
    return any(size in os.environ for _, size in RANK_AND_SIZE)


def launcher_variables() -> list[str]:
    """Returns the names of the variables that describe a job and are not empty, without those of torchrun."""
    known = [size for _, size in RANK_AND_SIZE]
    return [name for name in (*known, _RENDEZVOUS) if os.environ.get(name)]
