"""The backend ``dabke`` of torch.distributed, for DistributedDataParallel and all that uses process groups.

    import dabke.distributed
    import torch.distributed as dist

    dist.init_process_group("dabke")

Started by torchrun, by ``torch.multiprocessing.spawn``, or by dabkerun. The job starts over the store that
torch has made; a job of the same ranks that ``dabke.init`` has started already is joined instead. The group
of all is the world, and subgroups are process sets that their members alone have added; groups of the same
ranks share one.

Tensors are on the CPU, or on CUDA devices in a build that has NCCL; there the current stream waits for
results. What has no counterpart (send and recv, and what is made of them) raises NotImplementedError, which
says to make a group of gloo for it. docs/python.md has the rest.
"""

from .group import Group
from .register import register

__all__ = ["Group", "register"]

register()
