"""Horovod's name for the module of the collectives, from which some programs import."""

from typing import Any

from ..errors import HorovodInternalError as HorovodInternalError
from ..job import is_homogeneous as is_homogeneous
from ..job import (
    ccl_built as ccl_built,
    cross_rank as cross_rank,
    cross_size as cross_size,
    cuda_built as cuda_built,
    ddl_built as ddl_built,
    gloo_built as gloo_built,
    gloo_enabled as gloo_enabled,
    is_initialized as is_initialized,
    local_rank as local_rank,
    local_size as local_size,
    mpi_built as mpi_built,
    mpi_enabled as mpi_enabled,
    mpi_threads_supported as mpi_threads_supported,
    nccl_built as nccl_built,
    rank as rank,
    rocm_built as rocm_built,
    size as size,
)
from ..process_sets import (
    ProcessSet as ProcessSet,
    add_process_set as add_process_set,
    global_process_set as global_process_set,
    remove_process_set as remove_process_set,
)
from ..reduce_ops import *  # noqa: F403
from ..timeline import start_timeline as start_timeline, stop_timeline as stop_timeline
from .autograd import *  # noqa: F403
from .autograd import (
    HorovodAllgather as HorovodAllgather,
    HorovodAllreduce as HorovodAllreduce,
    HorovodAlltoall as HorovodAlltoall,
    HorovodBroadcast as HorovodBroadcast,
    HorovodGroupedAllgather as HorovodGroupedAllgather,
    HorovodGroupedAllreduce as HorovodGroupedAllreduce,
    HorovodGroupedReducescatter as HorovodGroupedReducescatter,
    HorovodReducescatter as HorovodReducescatter,
)
from .job import init as init, shutdown as shutdown
from .ops import *  # noqa: F403

# Horovod's map has the tensors of pending operations, by the numbers of their handles. Dabke's handles are
# objects that keep their tensors.
_handle_map: dict[int, Any] = {}
