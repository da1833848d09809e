"""Elastic training with TensorFlow, under the names of horovod.tensorflow.elastic.

A function that TensorFlow has traced keeps the numbers that it has read while it was traced, such as
``size()``. Use ``size_op()`` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._frontend.elastic import HostsUpdatedInterrupt, ObjectState, State, run
from .._frontend.elastic.failures import register_translation
from .._frontend.elastic.variables import KerasModel, KerasOptimizer, Variables, ready_optimizer
from ..errors import HorovodInternalError, InvalidArgumentError, UnimplementedError
from .submission import error_in

__all__ = [
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "run",
]

register_translation(error_in)


class TensorFlowState(ObjectState):
    """A state with variables of TensorFlow, and any other attributes.

    Copies of the variables are kept on the host.

    Args:
        variables: the variables, in the same order on all ranks, such as those of a model and its optimizer.
            None: none.
        session: None.
        kwargs: further attributes with their first values, such as ``step=0``. The same names on all ranks.

    Raises:
        InvalidArgumentError: an item is not a variable, or a name begins with an underscore or is that of a
            method.
        UnimplementedError: a session is given.
    """

    _kinds = (Variables(),)

    def __init__(self, variables: Sequence[Any] | None = None, session: Any = None, **kwargs: Any) -> None:
        if session is not None:
            raise UnimplementedError(
                "TensorFlowState: sessions of TensorFlow 1 are not supported; use variables of TensorFlow 2"
            )
        listed = list(variables or ())
        for each in listed:
            if not Variables().fits([each]):
                raise InvalidArgumentError(
                    f"TensorFlowState: expected variables, got {type(each).__name__}; pass model.variables "
                    "or a list of tf.Variable"
                )
        super().__init__(variables=listed, **kwargs)


class TensorFlowKerasState(ObjectState):
    """A state with a model of Keras, its optimizer, and any other attributes.

    Args:
        model: a model that is built.
        optimizer: its optimizer; None: the one with which the model is compiled.
        backend: ignored; Horovod has it.
        kwargs: further attributes with their first values, such as ``epoch=0``. The same names on all ranks.

    Raises:
        InvalidArgumentError: the model is not built, or a name begins with an underscore or is that of a
            method.
    """

    _kinds = (KerasModel(), KerasOptimizer())

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        given = ready_optimizer(model, optimizer)
        super().__init__(model=model, **({} if given is None else {"optimizer": given}), **kwargs)
