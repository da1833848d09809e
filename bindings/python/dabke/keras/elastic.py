"""Elastic training with Keras 3 on its three backends, under the names of horovod.keras.elastic.

state = hvd.elastic.KerasState(model, epoch=0, batch=0)

@hvd.elastic.run
def train(state):
    model.fit(x, y, initial_epoch=state.epoch, epochs=10, callbacks=[
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
    ])

train(state)
"""

from __future__ import annotations

import importlib
from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, ObjectState, State, run
from .._frontend.elastic.variables import KerasModel, KerasOptimizer, ready_optimizer
from ..errors import HorovodInternalError, InvalidArgumentError
from .backends import adapter
from .callbacks.base import TrainingCallback

__all__ = [
    "CommitStateCallback",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "KerasState",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]

importlib.import_module(f"{adapter.layer.__name__}.elastic")  # finds our errors in those of the framework


class KerasState(ObjectState):
    """A state with a model, its optimizer, and any other attributes.

    It has the weights and the optimizer's variables, not metrics and not the seeds of random layers. Copies
    are kept on the host.

    Args:
        model: a model that is built.
        optimizer: its optimizer; None: the one with which the model is compiled.
        kwargs: further attributes with their first values, such as ``epoch=0``. The same names on all ranks.

    Raises:
        InvalidArgumentError: the model is not built, or a name begins with an underscore or is that of a
            method.
    """

    _kinds = (KerasModel(), KerasOptimizer())

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        given = ready_optimizer(model, optimizer)
        super().__init__(model=model, **({} if given is None else {"optimizer": given}), **kwargs)


class TensorFlowKerasState(KerasState):
    """A ``KerasState``, under the name of horovod.tensorflow.elastic.

    Args:
        model: as in ``KerasState``.
        optimizer: as in ``KerasState``.
        backend: ignored; Horovod has it.
        kwargs: as in ``KerasState``.

    Raises:
        InvalidArgumentError: as in ``KerasState``.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)


class CommitStateCallback(TrainingCallback):
    """Commits a state after batches, and at the end of each epoch.

    It is the last callback in the list, so that a commit has the numbers that the others have set. Every rank
    must have the same number of batches.

    Args:
        state: the state.
        batches_per_commit: the number of batches from one commit to the next; 0: commits only at the end of
            an epoch.

    Raises:
        InvalidArgumentError: the number is negative.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 0:
            raise InvalidArgumentError(
                f"CommitStateCallback: batches_per_commit={batches_per_commit}; it must not be negative"
            )
        self.state = state
        self.batches_per_commit = batches_per_commit
        self._batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits if enough batches have passed.

        Raises:
            HostsUpdatedInterrupt: hosts come or go. It ends ``fit``, and ``run`` handles it.
        """
        self._batches += 1
        if self._batches == self.batches_per_commit:
            self._batches = 0
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits.

        Raises:
            HostsUpdatedInterrupt: hosts come or go. It ends ``fit``, and ``run`` handles it.
        """
        self._batches = 0
        self.state.commit()


class UpdateBatchStateCallback(TrainingCallback):
    """Keeps ``state.batch``: the number of batches of the epoch that are done, also before a change.

    A program that begins again in an epoch passes ``steps_per_epoch=steps - state.batch`` to ``fit``.

    Args:
        state: a state with the attribute ``batch``, which begins with 0.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._before = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._before = self.state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.state.batch = self._before + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallback(TrainingCallback):
    """Keeps ``state.epoch``: the number of epochs that are done, also before a change.

    A program passes ``initial_epoch=state.epoch`` to ``fit``.

    Args:
        state: a state with the attribute ``epoch``, which begins with 0.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.epoch += 1
