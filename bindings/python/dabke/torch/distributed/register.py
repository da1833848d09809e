"""Registers the backend in torch.distributed, and the rendezvous of dabkerun's processes."""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed as dist

from . import rendezvous
from .groups import make_group

__all__ = ["register"]

NAME = "dabke"


def register() -> None:
    """Registers the backend. The import of the package calls it; further calls have no effect."""
    if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    arguments: dict[str, Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        arguments["devices"] = ["cpu", "cuda"]
    dist.Backend.register_backend(NAME, make_group, **arguments)
    rendezvous.install()
