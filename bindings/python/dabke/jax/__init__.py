"""Distributed training with JAX: collectives on arrays and pytrees, in a jitted program and outside of one.

    import dabke.jax as hvd

    hvd.init()
    parameters = hvd.broadcast_parameters(parameters, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.01 * hvd.size()))

Nothing is compiled against JAX. docs/python/jax.md has every name, the transposes, and how calls are named.
"""

from ..compression import Compression
from ..errors import DabkeError, HorovodInternalError
from ..job import (
    abort,
    cross_rank,
    cross_size,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    size,
)
from ..process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ..reduce_ops import *
from ..reduce_ops import __all__ as _reduce_ops
from ..timeline import start_timeline, stop_timeline
from . import elastic
from . import cluster as _cluster  # noqa: F401  jax.distributed finds it once it is imported
from .collectives import allgather, allreduce, alltoall, barrier, broadcast, join, reducescatter
from .elastic import HostsUpdatedInterrupt
from .errors import dabke_errors, synchronize
from .ffi import api_version
from .functions import allgather_object, broadcast_object, broadcast_parameters
from .job import init, shutdown
from .metrics import metric_average
from .optimizer import DistributedOptimizer, value_and_grad

__all__ = [
    "Compression",
    "DabkeError",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ProcessSet",
    "abort",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "api_version",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "dabke_errors",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "metric_average",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
    "value_and_grad",
]
__all__ += _reduce_ops
