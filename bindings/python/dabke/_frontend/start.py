"""The start of the job in the layer of a framework, with Horovod's rules as defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import job
from ..errors import AlreadyInitializedError

__all__ = ["is_running", "settings_of"]

_HOROVODS = {"JOIN": "horovod", "DUPLICATE_NAMES": "error"}


def is_running(**arguments: Any) -> bool:
    """Returns True if the job already runs, so that a further ``init`` has nothing to start.

    Args:
        arguments: the arguments of that ``init`` that could have no effect then; None stands for not given.

    Raises:
        AlreadyInitializedError: the job runs, and one of them is given.
    """
    if not job.is_initialized():
        return False
    if any(argument is not None for argument in arguments.values()):
        raise AlreadyInitializedError("init: the job is already running, so these arguments have no effect")
    return True


def settings_of(settings: Mapping[str, object] | None, **chosen: str | None) -> dict[str, object]:
    """Returns the settings of a job. A setting that nobody has chosen has Horovod's value.

    Args:
        settings: those of the caller, which override all others.
        chosen: JOIN and DUPLICATE_NAMES by their names; None: the value of the environment variable, or
            Horovod's if that is not set.
    """
    result: dict[str, object] = {}
    for name, value in chosen.items():
        if value is not None or f"DABKE_{name}" not in os.environ:
            result[name] = _HOROVODS[name] if value is None else value
    return result | dict(settings or {})
