"""Registers the backend in torch.distributed, and the rendezvous of dabkerun's processes."""

from __future__ import annotations

import inspect
import os
from typing import Any

import torch.distributed as dist

from . import rendezvous
from .groups import make_group
from .other_backends import install_names, read_strings
from .untraced import skip_package

__all__ = ["register", "use_for_cpu"]

NAME = "dabke"


def register() -> None:
    """Registers the backend. The import of the package calls it; further calls have no effect."""
    if not dist.is_available() or hasattr(dist.Backend, NAME.upper()):
        return
    arguments: dict[str, Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        arguments["devices"] = ["cpu", "cuda"]
    dist.Backend.register_backend(NAME, make_group, **arguments)
    read_strings(NAME)
    install_names()
    skip_package(__name__.split(".")[0])
    rendezvous.install()
    if os.environ.get("DABKE_TORCH_CPU_BACKEND") == "1":
        use_for_cpu()


def use_for_cpu() -> None:
    """Makes this backend torch's default for tensors of the CPU.

    ``init_process_group()`` without a backend then uses it on a machine without an accelerator. With
    DABKE_TORCH_CPU_BACKEND=1 the import of the package does the same.
    """
    register()
    defaults = getattr(dist.Backend, "default_device_backend_map", None)
    if defaults is None:
        raise NotImplementedError('torch before 2.0 has no default for a device; pass backend="dabke"')
    defaults["cpu"] = NAME
