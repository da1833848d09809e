"""Failures of the job inside PyTorch's own errors.

PyTorch's C++ parts, such as DistributedDataParallel, call the collectives of the backend ``dabke``. They pass
an exception on as a RuntimeError with its class and its text.
"""

from __future__ import annotations

import re

from ... import errors
from ..._frontend.elastic.failures import register_translation

__all__: list[str] = []

_FAILURES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.HorovodInternalError)
}
_MARK = re.compile(rf"\b({'|'.join(_FAILURES)}): (.*)")


def _failure_in(error: BaseException) -> errors.DabkeError | None:
    found = _MARK.search(str(error)) if type(error) is RuntimeError else None
    return _FAILURES[found[1]](found[2]) if found else None


register_translation(_failure_in)
