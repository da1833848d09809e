"""The common start of all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..functions import broadcast_variables, state_of
from .base import TrainingCallback, attach_state

__all__ = ["BroadcastGlobalVariablesCallback"]


class BroadcastGlobalVariablesCallback(TrainingCallback):
    """Sends the weights and the optimizer's variables of one rank to all ranks when training begins.

    These include the moving averages of BatchNormalization, the learning rate and the step count. Metrics and
    the seeds of random layers are not sent. They are sent before the first batch; if a model is not built by
    then, after it.

    Args:
        root_rank: the rank that sends, such as the one that has loaded a checkpoint.
        device: ignored; Horovod has it.
        local_variables: variables that each rank keeps as they are.
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None
    ) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = {id(variable): variable for variable in local_variables or ()}

    def register_local_var(self, var: Any) -> None:
        """Makes each rank keep its value of a variable.

        Args:
            var: a variable of the model or its optimizer.
        """
        self._local[id(var)] = var

    def on_train_begin(self, logs: Any = None) -> None:
        optimizer = getattr(self.model, "optimizer", None)
        if self.model.built and optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self._send_if_built()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._send_if_built()

    def _send_if_built(self) -> None:
        optimizer = getattr(self.model, "optimizer", None)
        is_built = self.model.built and (optimizer is None or optimizer.built)
        if self.broadcast_done or not is_built:
            return
        attach_state(self.model)
        sent = [variable for variable in state_of(self.model) if id(variable) not in self._local]
        broadcast_variables(sent, self.root_rank)
        self.broadcast_done = True
