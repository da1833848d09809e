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


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    np: int = 4,
    *,
    hosts: str | None = None,
    env: Mapping[str, str] | None = None,
    launcher_args: Sequence[str] = (),
) -> list[Any]:
    """Runs ``func(*args, **kwargs)`` in `np` processes of one job.

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

    Returns:
        the results, by rank.

    Raises:
        RunError: a rank failed, or its result could not be pickled; the other ranks have been ended. Also
            raised if a result cannot be unpickled here.
        InvalidArgumentError: the function cannot be pickled. Between hosts also if it takes more than 64 MiB
            with its arguments.
    """
    from .launch import find_dabkerun  # late, so that python -m dabke.launch is the first to import it

    if np < 1:
        raise InvalidArgumentError(f"dabke.run: np={np}; at least one rank is needed")
    with through_files() if hosts is None else over_dabkerun() as caller:
        given = caller.give(_pickled_call(func, tuple(args), dict(kwargs or {})))
        command = [find_dabkerun(), "-np", str(np), *([] if hosts is None else ["-H", hosts]), *launcher_args]
        command += [sys.executable, "-m", "dabke._run_worker", *caller.arguments]
        code, last_lines = _run_command(command, {**_own_environment(), **(env or {})}, given, caller)
        return _results(caller.outcomes(np), np, code, last_lines)


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


def _unpickled(rank: int, result: bytes) -> Any:
    try:
        return pickle.loads(result)
    except Exception as error:
        raise RunError(
            f"dabke.run: the result of rank {rank} cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error
