"""The job's key, which the launcher gives to this process in its environment and nobody else is to have.

The runtime overwrites it there at the first ``init``, so that neither programs that are started nor /proc show it
(bindings/c/taken_job_key.h). ``os.environ`` is a copy of Python's own, which this module overwrites alike.
"""

from __future__ import annotations

import os

from .. import _core

__all__ = ["key_of_job", "take_key"]

_VARIABLE = "DABKE_JOB_KEY"
_TAKEN = _core.TAKEN_KEY_DIGIT  # what the runtime writes in the place of each digit

_kept: str | None = None


def take_key() -> None:
    """Overwrites the key in ``os.environ``. Called once the runtime has taken it: the variable is then C's as well."""
    global _kept
    key = os.environ.get(_VARIABLE)
    if key and not _is_taken(key):
        _kept = key
        os.environ[_VARIABLE] = _TAKEN * len(key)


def key_of_job() -> str | None:
    """The key, as it was given."""
    key = os.environ.get(_VARIABLE)
    return _kept if key and _is_taken(key) else key


def _is_taken(key: str) -> bool:
    return not key.strip(_TAKEN)
