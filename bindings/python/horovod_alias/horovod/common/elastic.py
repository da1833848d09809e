"""Elastic training, which is not implemented yet."""

from dabke.torch.elastic import run as run_fn
from dabke.torch.elastic import TorchState as ObjectState
from dabke.torch.elastic import TorchState as State

__all__ = ["ObjectState", "State", "run_fn"]
