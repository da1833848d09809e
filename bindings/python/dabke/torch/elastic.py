"""Horovod's names for elastic training. They can be imported; what they do is still to come."""

from __future__ import annotations

from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, not_there_yet
from ..errors import HorovodInternalError

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "TorchState", "run"]


_FRONTEND = "dabke.torch"


def run(func: Any) -> Any:
    """To be the decorator of an elastic training function.

    Args:
        func: takes a state as its first argument.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet(_FRONTEND, "run")


class TorchState:
    """To be what an elastic job keeps of a model and its optimizer.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TorchState")


class ElasticSampler:
    """To be the sampler of an elastic job; torch.utils.data.DistributedSampler shards data until then.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        not_there_yet(_FRONTEND, "ElasticSampler")
