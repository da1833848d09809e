"""Metrics that are averaged over the ranks at the end of an epoch."""

from __future__ import annotations

import array
from numbers import Real
from typing import Any

from ... import collectives, objects
from ...errors import MismatchError
from ...reduce_ops import Average
from .base import TrainingCallback
from .uneven_steps import join_epoch

__all__ = ["MetricAverageCallback"]


class MetricAverageCallback(TrainingCallback):
    """Replaces each metric of an epoch by its average over the ranks.

    Callbacks after it in the list, such as a checkpoint, early stopping, the progress bar and the history,
    then see the same numbers on every rank. Each rank counts the same, however many samples it has.

    Args:
        device: ignored; Horovod has it.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Averages the numbers of `logs` in place.

        Raises:
            MismatchError: the ranks have different metrics; the text names one that a rank lacks.
            HorovodInternalError: the job has failed.
        """
        join_epoch(self.model)
        found = {} if logs is None else logs
        keys = sorted(key for key, value in found.items() if isinstance(value, Real))
        _check_equal(objects.allgather_object(keys, name="metric_average.keys"))
        if not keys:
            return
        mine = array.array("d", [float(found[key]) for key in keys])
        means = collectives.allreduce(mine, "metric_average", op=Average)
        for key, mean in zip(keys, means):
            found[key] = float(mean)


def _check_equal(keys_of_ranks: list[list[str]]) -> None:
    """Raises MismatchError on every rank if a rank lacks a key."""
    for key in sorted(set().union(*keys_of_ranks)):
        lacking = [rank for rank, keys in enumerate(keys_of_ranks) if key not in keys]
        if lacking:
            ranks = ", ".join(map(str, lacking))
            word = "rank" if len(lacking) == 1 else "ranks"
            raise MismatchError(
                f"MetricAverageCallback: {word} {ranks} lacks the metric '{key}', which other ranks have; "
                "compile and validate the model in the same way on all ranks"
            )
