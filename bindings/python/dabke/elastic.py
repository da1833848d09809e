"""Elastic training without a framework: a state of any objects, such as NumPy arrays.

    state = dabke.elastic.ObjectState(weights=weights, step=0)

    @dabke.elastic.run
    def train(state):
        while state.step < 1000:
            state.weights -= dabke.allreduce(gradient(state.weights))
            state.step += 1
            state.commit()

    train(state)

The states of models and optimizers are in the frameworks' modules, such as ``dabke.torch.elastic``.
"""

from __future__ import annotations

from ._frontend.elastic import HostsUpdatedInterrupt, ObjectState, State, run
from .errors import HorovodInternalError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "run"]
