"""``dabke.run``: a function on several ranks, and its results."""

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
    """A rank of ``dabke.run`` has failed. The text has its traceback, or dabkerun's last lines where there is none."""


class Failure(NamedTuple):
    """The outcome of a rank without a result. A consequence is an error that a rank gets because another one has failed."""

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

    The function calls ``dabke.init()`` itself, as a program would. On one host it and its arguments, and what it
    returns, go through files in a directory that only this user can open; between hosts they go with what dabkerun
    carries. Nothing listens for them.

    Args:
        func: anything that can be pickled; with cloudpickle installed also functions of the main program, lambdas
            and closures.
        args: what the function is called with.
        kwargs: the same, by keywords.
        np: the number of ranks.
        hosts: which hosts, and how many ranks each takes: "server1:4,server2:4". Those other than this one are
            reached by ssh, and have Python, this package and the working directory in the same places. None: this
            host takes all.
        env: variables for the ranks, beside those of this process.
        launcher_args: flags for dabkerun, such as ["--timeline-filename", "trace.json"].

    Returns:
        the results, by rank.

    Raises:
        RunError: a rank failed, or its result could not be pickled; the others have been ended. Or a result cannot be
            unpickled here.
        InvalidArgumentError: the function cannot be pickled, or takes more than 64 MiB with its arguments, which is
            what can go between hosts.
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
    """This process's variables, without those by which dabkerun would take a rank's own job for a mistake."""
    return {name: value for name, value in os.environ.items() if name not in ("DABKE_SIZE", "DABKE_JOB_ID")}


def pickler() -> Any:
    """cloudpickle where it is installed; else pickle, which cannot take functions of the main program along."""
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return pickle
    return cloudpickle


def _pickled_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    by = pickler()
    if by is pickle and getattr(func, "__module__", None) == "__main__":
        raise InvalidArgumentError(
            "dabke.run: a function of the main program needs cloudpickle (pip install cloudpickle); or put it into a "
            "module of its own"
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
    """Its exit code and the last lines of its standard error, which is passed on as it comes.

    With something given, which the command reads, its output goes through the caller's `take_line`.
    """
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    piped = None if given is None else subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=piped, stdout=piped, stderr=subprocess.PIPE) as process:
        threads = [_in_thread(_pass_errors_on, process.stderr, last_lines)]
        try:
            if given is not None:
                threads.append(_in_thread(_pass_output_on, process.stdout, caller))
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin:  # it has failed, and says why
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
    # What the others got because of a rank that could say nothing is not the cause.
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
