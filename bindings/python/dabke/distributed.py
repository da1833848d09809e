"""The backend ``dabke`` of torch.distributed: ``import dabke.distributed`` registers it.

    import dabke.distributed
    import torch.distributed as dist

    dist.init_process_group("dabke")

The backend itself is in ``dabke.torch.distributed``; this is its public name.
"""

from .torch.distributed import Group, dump_flight_recorder, register, use_for_cpu

__all__ = ["Group", "dump_flight_recorder", "register", "use_for_cpu"]
