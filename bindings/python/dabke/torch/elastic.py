"""Horovod's names for elastic training. They can be imported; what they do is still to come."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DabkeError, HorovodInternalError, UnimplementedError

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "TorchState", "run"]


class HostsUpdatedInterrupt(DabkeError):
    """The job's hosts have changed. Nothing raises it yet."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the job's hosts have changed")
        self.skip_sync = skip_sync


def _not_yet(what: str) -> NoReturn:
    raise UnimplementedError(
        f"dabke.torch.elastic.{what}: elastic training is not there yet; train without it, save checkpoints on rank 0, "
        "and start the job again from the last one"
    )


def run(func: Any) -> Any:
    """To be the decorator of an elastic training function. Raises UnimplementedError."""
    _not_yet("run")


class TorchState:
    """To be what an elastic job keeps of a model and its optimizer. Raises UnimplementedError."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        _not_yet("TorchState")


class ElasticSampler:
    """To be the sampler of an elastic job; torch.utils.data.DistributedSampler shards data until then."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        _not_yet("ElasticSampler")
