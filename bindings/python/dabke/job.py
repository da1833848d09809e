"""Start and end of the job, this process's place in it, and the parts of this build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core, exit_hooks, process_sets as sets
from ._bootstrap.exchange import Exchange, bootstrap_of
from ._bootstrap.job_key import take_key
from ._frontend.names import forget_names
from .process_sets import ProcessSet

__all__ = [
    "abort",
    "backend_built",
    "backend_enabled",
    "ccl_built",
    "controller_built",
    "controller_enabled",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "version",
]


def init(
    comm: Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    rank: int | None = None,
    size: int | None = None,
    exchange: Exchange | None = None,
) -> None:
    """Joins the job, and returns when all ranks have come.

    Args:
        comm: the processes of the job. It may be one of these:

            * None: the job that the environment describes, as dabkerun, mpirun or torchrun set it; without
              one, a job of one rank.
            * A list of world ranks: a job of these processes of dabkerun, numbered by their places in the
              list. Only these processes call.
            * An mpi4py communicator: its processes.
            * A torch.distributed store, with `rank` and `size`: the processes that share it.
        process_sets: sets to add at once, as ProcessSet objects or lists of ranks; the same on all ranks. The
            objects get their ids. "dynamic", Horovod's value, is the same as None: sets can always be added.
        settings: knobs of docs/configuration.md without their prefix, such as {"TIMELINE": "trace.json"}.
            They override the environment.
        rank: this process's number among the processes that `exchange` or the store reaches, from 0.
        size: the number of these processes.
        exchange: with `rank` and `size`, an allgather over any channel between the processes. It takes this
            process's bytes and returns the bytes of all, joined in the order of their numbers. Called twice.
            A reader of its traffic can join the job.

    Raises:
        InvalidArgumentError: an argument or a setting is not valid. Raised on all ranks if ranks pass
            different ones.
        AlreadyInitializedError: this process is already in a job.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ranks.
    """
    wanted = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)
    to_make = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in wanted]
    bootstrap = bootstrap_of(comm, rank, size, exchange)
    forget_names()
    _core.init(
        [f"{name}={_text_of(value)}" for name, value in (settings or {}).items()],
        [each.ranks for each in to_make],
        bootstrap.exchange,
        bootstrap.rank,
        bootstrap.size,
        None,
    )
    take_key()
    sets.adopt(to_make)
    exit_hooks.install()


def _text_of(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def shutdown() -> None:
    """Leaves the job. Outside a job it does nothing. The interpreter's exit calls it, too.

    Operations that all ranks have agreed on run to their end; others raise ``ShutDownError``. Call
    ``barrier`` first if other ranks may still have work.

    Raises:
        ForkedError: this process is a forked child of a rank.
    """
    _core.shutdown()
    sets.forget_all()


def abort(reason: str) -> None:
    """Fails every pending and later operation on every rank with an ``AbortedError``.

    Args:
        reason: the reason, which becomes part of the error's text.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    _core.abort(reason)


def is_initialized() -> bool:
    """Returns True if this process is in a job."""
    return _core.is_initialized()


def rank() -> int:
    """Returns this process's rank in the job, from 0.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.rank()


def size() -> int:
    """Returns the number of ranks in the job.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.size()


def local_rank() -> int:
    """Returns this process's rank among the ranks of this host, from 0.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.local_rank()


def local_size() -> int:
    """Returns the number of ranks on this host.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.local_size()


def cross_rank() -> int:
    """Returns this host's number among the hosts that have this local rank, from 0.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.cross_rank()


def cross_size() -> int:
    """Returns the number of hosts that have this local rank.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.cross_size()


def is_homogeneous() -> bool:
    """Returns True if every host has the same number of ranks.

    Raises:
        NotInitializedError: this process is not in a job.
    """
    return _core.is_homogeneous()


def version() -> str:
    """Returns the runtime's version, such as "0.1.0"."""
    return _core.version()


def backend_built(name: str) -> bool:
    """Returns True if this build has the backend.

    Args:
        name: "gloo", "mpi", "shm", "tcp", "nccl" or "cuda"; False for any other.
    """
    return _core.backend_built(name)


def backend_enabled(name: str) -> bool:
    """Returns True if the running job uses the backend. False before ``init``.

    Args:
        name: as in ``backend_built``.
    """
    return _core.backend_enabled(name)


def controller_built(name: str) -> bool:
    """Returns True if this build can negotiate over the transport.

    Args:
        name: "tcp", "mpi" or "shm"; False for any other.
    """
    return _core.controller_built(name)


def controller_enabled(name: str) -> bool:
    """Returns True if the running job negotiates over the transport. False before ``init``.

    Args:
        name: as in ``controller_built``.
    """
    return _core.controller_enabled(name)


def mpi_threads_supported() -> bool:
    """Returns True if MPI is in use and may be called from several threads."""
    return _core.mpi_threads_supported() == 1


def mpi_built() -> bool:
    """Returns True if this build has the MPI backend."""
    return _core.backend_built("mpi")


def mpi_enabled() -> bool:
    """Returns True if the running job uses MPI."""
    return _core.backend_enabled("mpi") or _core.controller_enabled("mpi")


def gloo_built() -> bool:
    """Returns True if this build has the Gloo backend."""
    return _core.backend_built("gloo")


def gloo_enabled() -> bool:
    """Returns True if the running job uses Gloo."""
    return _core.backend_enabled("gloo")


def nccl_built() -> int:
    """Returns 1 if this build has NCCL, 0 if not. Horovod returns NCCL's version instead of 1."""
    return int(_core.backend_built("nccl"))


def cuda_built() -> bool:
    """Returns True if this build supports CUDA memory."""
    return _core.backend_built("cuda")


def rocm_built() -> bool:
    """Returns False: Dabke does not support ROCm. The function exists because Horovod has it."""
    return False


def ddl_built() -> bool:
    """Returns False: Dabke does not support IBM DDL. The function exists because Horovod has it."""
    return False


def ccl_built() -> bool:
    """Returns False: Dabke does not support oneCCL. The function exists because Horovod has it."""
    return False
