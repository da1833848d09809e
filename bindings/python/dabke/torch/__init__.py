"""Distributed training with PyTorch, with the names of horovod.torch.

    import dabke.torch as hvd

    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Nothing is compiled against PyTorch. docs/python/pytorch.md documents every name, and the differences from
Horovod. The import also registers the backend of ``init_process_group("dabke")`` of torch.distributed.
"""

from ..errors import DabkeError, HorovodInternalError
from ..job import (
    abort,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
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
    rocm_built,
    size,
)
from ..process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ..reduce_ops import *  # noqa: F403
from ..reduce_ops import __all__ as _reduce_ops
from ..timeline import start_timeline, stop_timeline
from . import distributed as _distributed  # noqa: F401  registers the backend
from . import autograd, elastic, mpi_ops, ops
from .autograd import *  # noqa: F403
from .compression import Compression, Compressor
from .elastic import HostsUpdatedInterrupt
from .functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .job import init, shutdown
from .ops import *  # noqa: F403
from .optimizer import DistributedOptimizer
from .schedules import WarmupLR, metric_average
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    "Compression",
    "Compressor",
    "DabkeError",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ProcessSet",
    "SyncBatchNorm",
    "WarmupLR",
    "abort",
    "add_process_set",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "metric_average",
    "mpi_built",
    "mpi_enabled",
    "mpi_ops",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
__all__ += _reduce_ops
__all__ += autograd.__all__
__all__ += ops.__all__
