"""The capabilities and the options that torch reads from a backend. A group is its own backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from torch._C import _distributed_c10d

__all__ = ["Capabilities"]


class Capabilities:
    """The members of torch's Backend that a ProcessGroup lacks."""

    _timeout: timedelta

    supports_coalescing = True
    # True would let torch make subgroups by split_group, whose callers are all members of the parent.
    supports_splitting = False
    supports_time_estimate = False
    supports_shrinking = False

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Returns False: the memory of torch's own allocator serves as well as any other."""
        return False

    @property
    def options(self) -> Any:
        kind: Any = getattr(_distributed_c10d, "Backend")  # torch's type stubs lack it
        return kind.Options("dabke", self._timeout)
