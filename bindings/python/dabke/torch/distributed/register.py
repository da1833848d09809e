"""Makes the backend known to torch.distributed, and the way in which dabkerun's processes find each other to it."""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed as dist

from . import rendezvous
from .groups import make_group

__all__ = ["register"]

NAME = "dabke"


def register() -> None:
    """Once is enough, more does no harm. The package does it when it is imported."""
    if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    arguments: dict[str, Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        arguments["devices"] = ["cpu", "cuda"]
    dist.Backend.register_backend(NAME, make_group, **arguments)
    rendezvous.install()
