"""The job's secret key, which the launcher passes to this process in its environment.

The runtime overwrites the variable at the first ``init``, so that programs which this process starts do not
get the key, and /proc does not show it (bindings/c/taken_job_key.h). This module overwrites Python's own copy
in ``os.environ``, too.
"""

from __future__ import annotations

import os

from .. import _core

__all__ = ["key_of_job", "take_key"]

_VARIABLE = "DABKE_JOB_KEY"
_TAKEN = _core.TAKEN_KEY_DIGIT  # the character by which the runtime replaces each digit

_kept: str | None = None


def take_key() -> None:
    """Overwrites the key in ``os.environ``, and so C's variable, after the runtime has taken it."""
    global _kept
    key = os.environ.get(_VARIABLE)
    if key and not _is_taken(key):
        _kept = key
        os.environ[_VARIABLE] = _TAKEN * len(key)


def key_of_job() -> str | None:
    """Returns the key as the launcher passed it."""
    key = os.environ.get(_VARIABLE)
    return _kept if key and _is_taken(key) else key


def _is_taken(key: str) -> bool:
    return not key.strip(_TAKEN)
