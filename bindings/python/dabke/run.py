"""``dabke.run``: runs a function on several ranks, and returns its results."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from .errors import DabkeError, InvalidArgumentError
from .run_transport import Caller, over_dabkerun, through_files

__all__ = ["RunError", "run"]

_LAST_LINES = 20


class RunError(DabkeError):
    """A rank of ``dabke.run`` has failed. The text has its traceback, or else dabkerun's last lines."""


class Failure(NamedTuple):
    """The outcome of a rank without a result. `is_consequence`: it failed because another rank failed."""

    traceback: str
    is_consequence: bool
    when: float


class Placed(NamedTuple):
    """The result of a process of an elastic job. Results are sorted by `place`, which is mostly the rank."""

    place: int
    result: bytes


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    np: int = 4,
    *,
    hosts: str | None = None,
    env: Mapping[str, str] | None = None,
    launcher_args: Sequence[str] = (),
    min_np: int | None = None,
    max_np: int | None = None,
    host_discovery_script: str | None = None,
    slots_per_host: int | None = None,
    reset_limit: int | None = None,
    elastic_timeout: float | None = None,
    blacklist_cooldown_range: Sequence[float] | None = None,
    spares: int | None = None,
) -> list[Any]:
    """Runs ``func(*args, **kwargs)`` in `np` processes of one job.

    The last eight arguments are for an elastic job, in which ranks may come and go. `min_np` or
    `host_discovery_script` makes the job elastic.

    The function calls ``dabke.init()`` itself, as a program would. On one host, the function, its arguments
    and its results go through files in a directory that only this user can open. Between hosts they use
    dabkerun's connections. No additional port is opened.

    Args:
        func: a function that can be pickled. With cloudpickle installed, functions of the main program,
            lambdas and closures work, too.
        args: the function's positional arguments.
        kwargs: the function's keyword arguments.
        np: the number of ranks.
        hosts: the hosts with their numbers of ranks: "server1:4,server2:4". Other hosts are reached by ssh,
            and have Python, this package and the working directory in the same places. None: all ranks run on
            this host.
        env: variables for the ranks, in addition to those of this process.
        launcher_args: flags for dabkerun, such as ["--timeline-filename", "trace.json"].
        min_np: the fewest ranks with which the job goes on.
        max_np: the most ranks.
        host_discovery_script: a command that prints the hosts that are there now.
        slots_per_host: the number of ranks on a host for which that command prints none.
        reset_limit: the most changes of the ranks, after which the job ends.
        elastic_timeout: the time in seconds in which `min_np` ranks must come together again.
        blacklist_cooldown_range: the shortest and the longest time in seconds for which a host or a slot that
            has failed is left out.
        spares: the number of processes that wait to replace a lost rank.

    Returns:
        the results, by rank. Of an elastic job, the results of the ranks that have run the function to its
        end. They are in the order of the processes' start if the function calls ``shutdown``.

    Raises:
        RunError: a rank failed, or its result could not be pickled; the other ranks have been ended. Also
            raised if a result cannot be unpickled here. In an elastic job, a rank may fail without this error
            if the others go on.
        InvalidArgumentError: the function cannot be pickled. Between hosts also if it takes more than 64 MiB
            with its arguments, in an elastic job 768 KiB. Or an argument of an elastic job is given without
            `min_np` and `host_discovery_script`.
    """
    from .launch import find_dabkerun  # late, so that python -m dabke.launch is the first to import it

    if np < 1:
        raise InvalidArgumentError(f"dabke.run: np={np}; at least one rank is needed")
    elastic = _elastic_flags(
        {
            "min_np": min_np,
            "host_discovery_script": host_discovery_script,
            "max_np": max_np,
            "slots_per_host": slots_per_host,
            "reset_limit": reset_limit,
            "elastic_timeout": elastic_timeout,
            "blacklist_cooldown_range": blacklist_cooldown_range,
            "spares": spares,
        }
    )
    is_here = hosts is None and host_discovery_script is None
    with through_files() if is_here else over_dabkerun(bool(elastic)) as caller:
        given = caller.give(_pickled_call(func, tuple(args), dict(kwargs or {})))
        command = [
            find_dabkerun(),
            "-np",
            str(np),
            *([] if hosts is None else ["-H", hosts]),
            *elastic,
            *launcher_args,
        ]
        command += [sys.executable, "-m", "dabke._run_worker", *caller.arguments]
        code, last_lines = _run_command(
            command, {**_own_environment(), **(env or {}), **caller.variables}, given, caller
        )
        if elastic:
            return _elastic_results(caller.outcomes(), code, last_lines)
        return _results(caller.outcomes(), np, code, last_lines)


def _elastic_flags(arguments: Mapping[str, Any]) -> list[str]:
    """Returns the flags of dabkerun for the arguments of an elastic job that are given."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if given and not {"min_np", "host_discovery_script"} & set(given):
        raise InvalidArgumentError(
            f"dabke.run: {', '.join(given)} needs an elastic job; pass min_np or host_discovery_script, too"
        )
    flags = []
    for name, value in given.items():
        values = value if name == "blacklist_cooldown_range" else [value]
        flags += [f"--{name.replace('_', '-')}", *map(str, values)]
    return flags


def _own_environment() -> dict[str, str]:
    """Returns this process's variables, without those that make dabkerun refuse a start from a rank."""
    return {name: value for name, value in os.environ.items() if name not in ("DABKE_SIZE", "DABKE_JOB_ID")}


def pickler() -> Any:
    """Returns cloudpickle if it is installed, else pickle, which cannot send functions of ``__main__``."""
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return pickle
    return cloudpickle


def _pickled_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    by = pickler()
    if by is pickle and getattr(func, "__module__", None) == "__main__":
        raise InvalidArgumentError(
            "dabke.run: a function of the main program needs cloudpickle (pip install cloudpickle); "
            "or put it into a module of its own"
        )
    try:
        call: bytes = by.dumps((func, args, kwargs))
    except Exception as error:
        raise InvalidArgumentError(
            f"dabke.run: the function or its arguments cannot be pickled: {error}"
        ) from error
    return pickle.dumps((sys.path, call))


def _run_command(
    command: list[str], env: dict[str, str], given: bytes | None, caller: Caller
) -> tuple[int, list[str]]:
    """Runs the command, and forwards its standard error. Returns its exit code and the last error lines.

    If `given` is not None, the command reads it, and its output goes through the caller's `take_line`.
    """
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    piped = None if given is None else subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=piped, stdout=piped, stderr=subprocess.PIPE) as process:
        threads = [_in_thread(_pass_errors_on, process.stderr, last_lines)]
        try:
            if given is not None:
                threads.append(_in_thread(_pass_output_on, process.stdout, caller))
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin:  # the command has failed, and prints why
                    process.stdin.write(given)
            code = process.wait()
        except BaseException:
            process.terminate()  # dabkerun ends its ranks
            raise
        for thread in threads:
            thread.join()
    return code, list(last_lines)


def _in_thread(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def _pass_errors_on(stream: IO[bytes], last_lines: deque[str]) -> None:
    for line in stream:
        text = line.decode(errors="replace")
        last_lines.append(text)
        sys.stderr.write(text)


def _pass_output_on(stream: IO[bytes], caller: Caller) -> None:
    for line in stream:
        rest = caller.take_line(line.decode(errors="replace"))
        if rest:
            sys.stdout.write(rest)
            sys.stdout.flush()


def _results(outcomes: Mapping[int, bytes], np: int, code: int, last_lines: list[str]) -> list[Any]:
    results: dict[int, Any] = {}
    failures: dict[int, Failure] = {}
    for rank, data in outcomes.items():
        outcome = pickle.loads(data)
        (failures if isinstance(outcome, Failure) else results)[rank] = outcome
    silent = [rank for rank in range(np) if rank not in outcomes]
    first = min(failures, key=lambda rank: (failures[rank].is_consequence, failures[rank].when), default=None)
    # If a rank ended without an outcome, the errors that other ranks got because of it are not the cause.
    if first is not None and not (silent and failures[first].is_consequence):
        raise RunError(f"dabke.run: rank {first} failed:\n{failures[first].traceback}")
    if silent or code != 0:
        what = f"ranks {silent} ended without a result" if silent else "it failed after all ranks had ended"
        raise RunError(f"dabke.run: {what}; dabkerun exited with {code}:\n{''.join(last_lines)}")
    return [_unpickled(rank, results[rank]) for rank in range(np)]


def _elastic_results(outcomes: Mapping[int, bytes], code: int, last_lines: list[str]) -> list[Any]:
    """Returns the results of the ranks that have ended well, if the job has."""
    failures: list[Failure] = []
    results: list[Placed] = []
    for data in outcomes.values():
        outcome = pickle.loads(data)
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            results.append(outcome)
    if code != 0 or not results:
        first = min(failures, key=lambda failure: (failure.is_consequence, failure.when), default=None)
        what = f"a rank failed:\n{first.traceback}" if first else "no rank has a result"
        raise RunError(f"dabke.run: {what}; dabkerun exited with {code}:\n{''.join(last_lines)}")
    return [_unpickled(each.place, each.result) for each in sorted(results)]


def _unpickled(rank: int, result: bytes) -> Any:
    try:
        return pickle.loads(result)
    except Exception as error:
        raise RunError(
            f"dabke.run: the result of rank {rank} cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error
