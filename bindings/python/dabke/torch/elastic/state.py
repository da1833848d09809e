"""The state of a training with PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from ..._frontend.elastic import ObjectState
from .kinds import KINDS

__all__ = ["TorchState"]


class TorchState(ObjectState):
    """A state with a model, an optimizer, and any other attributes.

    An attribute with ``state_dict`` and ``load_state_dict``, such as a scheduler or an ``ElasticSampler``, is
    kept by them. Tensors, and all objects that can be copied and pickled, are kept as they are.

    Two copies of the values are kept, on the device where they are. So a commit needs memory for twice the
    model and the optimizer.

    Args:
        model: a module; None: no model.
        optimizer: an optimizer, which may be distributed; None: no optimizer.
        kwargs: further attributes with their first values, such as ``epoch=0``. The same names on all ranks.

    Raises:
        InvalidArgumentError: a name begins with an underscore, or is that of a method.
    """

    _kinds = KINDS

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        given = {"model": model, "optimizer": optimizer}
        super().__init__(**{name: value for name, value in given.items() if value is not None}, **kwargs)
