"""Horovod's name for the package of its data service."""

from . import compute_service

__all__ = ["compute_service"]
