"""Horovod's names for a data service on other processes. They can be imported; the errors say what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import UnimplementedError

__all__ = ["TfDataServiceConfig", "compute_worker_fn", "send_to_data_service", "tf_data_service"]


def _absent(name: str) -> NoReturn:
    raise UnimplementedError(
        f"dabke.tensorflow.data.compute_service.{name} is not supported; give each rank its own part of the data by "
        "dataset.shard(hvd.size(), hvd.rank()), or start TensorFlow's own tf.data.experimental.service"
    )


class TfDataServiceConfig:
    """Horovod's settings of the service.

    Raises:
        UnimplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _absent("TfDataServiceConfig")


def tf_data_service(compute_config: Any, rank: int) -> Any:
    """Horovod's server, as a context. Raises UnimplementedError."""
    _absent("tf_data_service")


def send_to_data_service(
    dataset: Any,
    compute_config: Any,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> Any:
    """Horovod's dataset of the service. Raises UnimplementedError."""
    _absent("send_to_data_service")


def compute_worker_fn(compute_config: Any) -> None:
    """Horovod's worker of the service. Raises UnimplementedError."""
    _absent("compute_worker_fn")
