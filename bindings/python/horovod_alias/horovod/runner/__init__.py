"""Jobs from Python, by Horovod's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dabke
from dabke.errors import UnimplementedError


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    *,
    np: int | None = None,
    hosts: str | None = None,
    verbose: Any = None,
    use_gloo: Any = None,
    use_mpi: Any = None,
    disable_cache: Any = None,
    start_timeout: Any = None,
    **others: Any,
) -> list[Any]:
    """The list of what ``func(*args, **kwargs)`` gives in each of `num_proc` processes of this host, or of `hosts`.

    `verbose`, `use_gloo`, `use_mpi`, `disable_cache` and `start_timeout` are accepted and have no effect. Raises
    UnimplementedError for elastic jobs and Horovod's other arguments.
    """
    asked = sorted(name for name, value in others.items() if value is not None)
    if asked:
        raise UnimplementedError(
            f"horovod.run: {', '.join(asked)} is not there yet; see dabke.run and dabkerun --help"
        )
    ranks = num_proc if np is None else np
    return dabke.run(func, args=tuple(args), kwargs=dict(kwargs or {}), np=ranks, hosts=hosts)
