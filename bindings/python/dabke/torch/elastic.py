"""Horovod's names for elastic training. They can be imported, but are not implemented yet."""

from __future__ import annotations

from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, not_there_yet
from ..errors import HorovodInternalError

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "TorchState", "run"]


_FRONTEND = "dabke.torch"


def run(func: Any) -> Any:
    """Will decorate an elastic training function. Not implemented yet.

    Args:
        func: a function that takes a state as its first argument.

    Raises:
        UnimplementedError: always.
    """
    not_there_yet(_FRONTEND, "run")


class TorchState:
    """Will hold the state of a model and its optimizer in an elastic job. Not implemented yet.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        not_there_yet(_FRONTEND, "TorchState")


class ElasticSampler:
    """Will be the sampler of an elastic job. Until then, use torch.utils.data.DistributedSampler.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        not_there_yet(_FRONTEND, "ElasticSampler")
