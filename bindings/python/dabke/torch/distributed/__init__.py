"""The backend ``dabke`` of torch.distributed, for DistributedDataParallel and other users of process groups.

    import dabke.distributed
    import torch.distributed as dist

    dist.init_process_group("dabke")

Start the program by torchrun, by ``torch.multiprocessing.spawn``, or by dabkerun. The job starts over torch's
store. If ``dabke.init`` has already started a job of the same ranks, that job is used instead. The group of
all ranks is the world. Subgroups are process sets that only their members add; groups of the same ranks share
a set.

Tensors are on the CPU, or on CUDA devices in a build with NCCL, where the current stream waits for results.
Calls that Dabke lacks (merge_remote_group) raise NotImplementedError, which names what to use for them.
docs/python.md documents the details.
"""

from .flight_recorder import dump as dump_flight_recorder
from .group import Group
from .register import register, use_for_cpu

__all__ = ["Group", "dump_flight_recorder", "register", "use_for_cpu"]

register()
