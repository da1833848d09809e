"""Distributed training with Keras 3 on TensorFlow, JAX or PyTorch, with the names of horovod.keras.

    import dabke.keras as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    x, y = hvd.shard(x, y)
    model.fit(x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

KERAS_BACKEND selects Keras's backend. docs/python/keras.md documents every name, and the differences from
Horovod. ``dabke.tensorflow.keras`` is the same module.
"""

from ..barriers import barrier
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
from ..objects import allgather_object, broadcast_object
from ..process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ..reduce_ops import *  # noqa: F403
from ..reduce_ops import __all__ as _reduce_ops
from ..timeline import start_timeline, stop_timeline
from .legacy import refuse_keras_2

refuse_keras_2()

from . import callbacks, elastic  # noqa: E402
from .backends import adapter as _adapter  # noqa: E402
from .functions import (  # noqa: E402
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    broadcast_variables,
    reducescatter,
)
from .optimizer import Compression, DistributedOptimizer, PartialDistributedOptimizer  # noqa: E402
from .saving import load_model  # noqa: E402
from .sharding import shard  # noqa: E402

init = _adapter.layer.init
shutdown = _adapter.layer.shutdown

__all__ = [
    "Compression",
    "DabkeError",
    "DistributedOptimizer",
    "HorovodInternalError",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "abort",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
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
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shard",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
__all__ += _reduce_ops
