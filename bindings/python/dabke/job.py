"""Start and end of the job, this process's place in it, and what this build can do."""

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
        comm: what the job is made of. None: what the environment says, as dabkerun, mpirun or torchrun set it; a
            job of one without any. A list of world ranks: a job of these of dabkerun's processes, numbered by their
            places in the list; these alone call. An mpi4py communicator: its processes. A torch.distributed store,
            with `rank` and `size`: the processes that share it.
        process_sets: sets to make at once, as ProcessSet objects or lists of ranks, the same on all ranks; the
            objects get their ids. "dynamic", as Horovod has it, is the same as None: sets can always be added.
        settings: knobs of docs/configuration.md without their prefix, such as {"TIMELINE": "trace.json"}; they
            come before the environment.
        rank: this process's number among those that `exchange` or the store reaches, from 0.
        size: how many processes those are.
        exchange: with `rank` and `size`, an allgather over whatever the processes can talk through: it is given
            this process's bytes and returns those of all, joined in the order of their numbers. Called twice. Whoever
            can read what it carries can join the job.

    Raises:
        InvalidArgumentError: arguments or settings that make no sense, on all ranks where they differ.
        AlreadyInitializedError: there is a job already.
        TimedOutError: not all ranks came within START_TIMEOUT_SECONDS; the text names the missing ones.
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
    """Leaves the job; without one it does nothing. Called at the interpreter's exit too.

    Operations that all ranks have agreed on run to their end, others raise ``ShutDownError``. Call ``barrier``
    first where others may have work to do.

    Raises:
        ForkedError: this process is a forked child of a rank.
    """
    _core.shutdown()
    sets.forget_all()


def abort(reason: str) -> None:
    """Fails every pending and later operation on every rank with an ``AbortedError``.

    Args:
        reason: a part of the error's text.

    Raises:
        NotInitializedError: there is no job.
    """
    _core.abort(reason)


def is_initialized() -> bool:
    """Whether this process is in a job."""
    return _core.is_initialized()


def rank() -> int:
    """This process's number in the job, from 0.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.rank()


def size() -> int:
    """How many ranks the job has.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.size()


def local_rank() -> int:
    """This process's number among the ranks of this host.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.local_rank()


def local_size() -> int:
    """How many ranks this host has.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.local_size()


def cross_rank() -> int:
    """This host's number among those that have a rank of this local rank.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.cross_rank()


def cross_size() -> int:
    """How many hosts have a rank of this local rank.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.cross_size()


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks.

    Raises:
        NotInitializedError: there is no job.
    """
    return _core.is_homogeneous()


def version() -> str:
    """The runtime's version, such as "0.1.0"."""
    return _core.version()


def backend_built(name: str) -> bool:
    """Whether this build has a backend.

    Args:
        name: "gloo", "mpi", "shm", "tcp", "nccl" or "cuda"; False for any other.
    """
    return _core.backend_built(name)


def backend_enabled(name: str) -> bool:
    """Whether the running job uses a backend; False before ``init``.

    Args:
        name: as in ``backend_built``.
    """
    return _core.backend_enabled(name)


def controller_built(name: str) -> bool:
    """Whether the ranks of this build can negotiate over a transport.

    Args:
        name: "tcp", "mpi" or "shm"; False for any other.
    """
    return _core.controller_built(name)


def controller_enabled(name: str) -> bool:
    """Whether the running job negotiates over a transport; False before ``init``.

    Args:
        name: as in ``controller_built``.
    """
    return _core.controller_enabled(name)


def mpi_threads_supported() -> bool:
    """Whether MPI is in use and may be called from several threads."""
    return _core.mpi_threads_supported() == 1


def mpi_built() -> bool:
    """Whether this build has the MPI backend."""
    return _core.backend_built("mpi")


def mpi_enabled() -> bool:
    """Whether the running job uses MPI."""
    return _core.backend_enabled("mpi") or _core.controller_enabled("mpi")


def gloo_built() -> bool:
    """Whether this build has the Gloo backend."""
    return _core.backend_built("gloo")


def gloo_enabled() -> bool:
    """Whether the running job uses Gloo."""
    return _core.backend_enabled("gloo")


def nccl_built() -> int:
    """Whether this build has NCCL: 0, or NCCL's version as a number."""
    return int(_core.backend_built("nccl"))


def cuda_built() -> bool:
    """Whether this build works on CUDA memory."""
    return _core.backend_built("cuda")


def rocm_built() -> bool:
    """Horovod's question; there is no ROCm here."""
    return False


def ddl_built() -> bool:
    """Horovod's question; there is no IBM DDL here."""
    return False


def ccl_built() -> bool:
    """Horovod's question; there is no oneCCL here."""
    return False
