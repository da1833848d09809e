"""Epochs in which the ranks have different numbers of batches.

1. At its epoch's end a rank joins. While the others go on, it adds zeros to their reductions.
2. The last rank to join has taken every step. All ranks get its weights and its optimizer.

Until the join is complete, a rank may start no other operation at the epoch's end. So every callback of this
package first calls ``join_epoch``, in whatever order the callbacks are.
"""

from __future__ import annotations

import weakref
from typing import Any

from ...barriers import join
from ..backends import adapter
from ..distributed_class import is_distributed
from ..functions import broadcast_variables, state_of
from .base import TrainingCallback, attach_state

__all__ = ["JoinCallback", "join_epoch"]

_callbacks: weakref.WeakKeyDictionary[Any, JoinCallback] = weakref.WeakKeyDictionary()


class JoinCallback(TrainingCallback):
    """Lets ranks have different numbers of batches in an epoch.

    ``init(join="dabke")`` makes each step average over the ranks that still have batches. With Horovod's
    rule, which is the default, it divides by the number of all ranks.

    Gradients of passes that did not complete a step are dropped.

    Attributes:
        last_joined_rank: the rank that joined last in the last epoch; None before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last_joined_rank: int | None = None
        self._has_joined = True

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        _callbacks[model] = self

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._has_joined = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Joins, and takes the state of the rank that joined last.

        Raises:
            HorovodInternalError: the job has failed.
        """
        self.join()

    def on_train_end(self, logs: Any = None) -> None:
        _callbacks.pop(self.model, None)

    def join(self) -> None:
        """Joins if this rank has not joined in this epoch."""
        if self._has_joined:
            return
        self._has_joined = True
        attach_state(self.model)
        adapter.finish([variable.value for variable in self.model.weights])
        self.last_joined_rank = join()
        if is_distributed(self.model.optimizer):
            self.model.optimizer._rank_state.clear()
        broadcast_variables(state_of(self.model), self.last_joined_rank)


def join_epoch(model: Any) -> None:
    """Joins the epoch's end if ``fit`` runs with a ``JoinCallback``."""
    callback = _callbacks.get(model)
    if callback is not None:
        callback.join()
