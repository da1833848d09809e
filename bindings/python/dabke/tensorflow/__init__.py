"""Distributed training with TensorFlow, by the names that horovod.tensorflow has.

    import dabke.tensorflow as hvd

    hvd.init()
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    hvd.broadcast_variables(model.variables, root_rank=0)

Nothing is compiled against TensorFlow. docs/python/tensorflow.md has every name, and what is other than in
Horovod. Neither the import nor ``init`` initialises TensorFlow's devices or threads.
"""

from typing import Any as _Any

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
from . import data, elastic, functions, ops
from . import gradients as _gradients  # noqa: F401  registers them
from . import numbers as _numbers
from .compression import Compression, Compressor
from .elastic import HostsUpdatedInterrupt
from .functions import *  # noqa: F403
from .gradient_aggregation import LocalGradientAggregationHelper
from .job import init, shutdown
from .numbers import *  # noqa: F403
from .ops import *  # noqa: F403
from .optimizer import DistributedOptimizer
from .tape import DistributedGradientTape, PartialDistributedGradientTape

__all__ = [
    "Compression",
    "Compressor",
    "DabkeError",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "LocalGradientAggregationHelper",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "SyncBatchNormalization",
    "abort",
    "add_process_set",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "data",
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
    "mpi_built",
    "mpi_enabled",
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
__all__ += functions.__all__
__all__ += _numbers.__all__
__all__ += ops.__all__


def __getattr__(name: str) -> _Any:
    """SyncBatchNormalization, whose base class is Keras's: Keras is imported by those alone who use it."""
    if name == "SyncBatchNormalization":
        from .sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
