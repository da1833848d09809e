"""Horovod's module names over Dabke."""

from ._absent import install as _install_absent
from ._layers import install as _install_layers
from .runner import run as run

# The version of Horovod whose names these are.
__version__ = "0.28.1"

_install_layers()
_install_absent()
