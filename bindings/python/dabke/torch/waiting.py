"""The result of a handle, once it may be used: on the host, or by the current stream of its CUDA device."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..handles import result_of, synchronize
from .device_streams import make_stream_wait


def wait_for(handle: _core.Handle) -> Any:
    """Works like ``synchronize`` of ops.py, but takes only handles."""
    if handle.cuda_device < 0:
        return synchronize(handle)
    make_stream_wait((handle,))
    return result_of(handle)
