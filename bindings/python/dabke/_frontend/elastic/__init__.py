"""Elastic training: a state that survives a change of the ranks, and the loop that goes on with it."""

from .failures import HostsUpdatedInterrupt
from .loop import run
from .state import ObjectState, State

__all__ = ["HostsUpdatedInterrupt", "ObjectState", "State", "run"]
