"""Jobs from Python, with Horovod's arguments."""

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
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[float] | None = None,
    host_discovery_script: str | None = None,
    verbose: Any = None,
    use_gloo: Any = None,
    use_mpi: Any = None,
    disable_cache: Any = None,
    start_timeout: Any = None,
    **others: Any,
) -> list[Any]:
    """Runs ``func(*args, **kwargs)`` in `num_proc` processes of this host, or of `hosts`.

    Args:
        func: a function that can be pickled, as in ``dabke.run``.
        args: the function's positional arguments.
        kwargs: the function's keyword arguments.
        num_proc: the number of ranks.
        np: the number of ranks; overrides `num_proc`.
        hosts: the hosts with their numbers of ranks: "server1:4,server2:4". None: this host.
        min_num_proc: the fewest ranks of an elastic job, as `min_np` of ``dabke.run``.
        max_num_proc: the most ranks of an elastic job, as `max_np` of ``dabke.run``.
        min_np: the older name of `min_num_proc`.
        max_np: the older name of `max_num_proc`.
        slots: the ranks of a host for which the script prints none, as `slots_per_host` of ``dabke.run``.
        reset_limit: as in ``dabke.run``.
        cooldown_range: as `blacklist_cooldown_range` of ``dabke.run``.
        host_discovery_script: as in ``dabke.run``.
        verbose: ignored.
        use_gloo: ignored.
        use_mpi: ignored.
        disable_cache: ignored.
        start_timeout: ignored.
        others: Horovod's other arguments.

    Returns:
        the results, by rank.

    Raises:
        UnimplementedError: one of Horovod's other arguments.
        RunError: a rank failed; see ``dabke.run``.
    """
    asked = sorted(name for name, value in others.items() if value is not None)
    if asked:
        raise UnimplementedError(
            f"horovod.run: {', '.join(asked)} is not supported yet; see dabke.run and dabkerun --help"
        )
    ranks = num_proc if np is None else np
    return dabke.run(
        func,
        args=tuple(args),
        kwargs=dict(kwargs or {}),
        np=ranks,
        hosts=hosts,
        min_np=min_num_proc if min_np is None else min_np,
        max_np=max_num_proc if max_np is None else max_np,
        slots_per_host=slots,
        reset_limit=reset_limit,
        blacklist_cooldown_range=cooldown_range,
        host_discovery_script=host_discovery_script,
    )
