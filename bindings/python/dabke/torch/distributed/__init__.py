"""The backend ``dabke`` of torch.distributed, for DistributedDataParallel and other users of process groups.

    import dabke.distributed
    import torch.distributed as dist

    dist.init_process_group("dabke")

Start the program by torchrun, by ``torch.multiprocessing.spawn``, or by dabkerun. The job starts over torch's
store. If ``dabke.init`` has already started a job of the same ranks, that job is used instead. The group of
all ranks is the world. Subgroups are process sets that only their members add; groups of the same ranks share
a set.

Tensors are on the CPU, or on CUDA devices in a build with NCCL, where the current stream waits for results.
Calls that Dabke lacks (send, recv, and calls that use them) raise NotImplementedError, which suggests a group
of gloo for them. docs/python.md documents the details.
"""

from .group import Group
from .register import register

__all__ = ["Group", "register"]

register()
