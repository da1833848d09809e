"""``dabke.run``: a function on several ranks, and its results."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from .errors import DabkeError, InvalidArgumentError, UnimplementedError
from .launch import find_dabkerun

__all__ = ["RunError", "run"]

_LAST_LINES = 20


class RunError(DabkeError):
    """A rank of ``dabke.run`` has failed. The text has its traceback, or dabkerun's last lines where there is none."""


class Failure(NamedTuple):
    """What a rank leaves instead of a result. Consequences are what a rank gets because another one failed."""

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
    """Runs ``func(*args, **kwargs)`` in `np` processes of one job on this host.

    The function calls ``dabke.init()`` itself, as a program would. It and its arguments, and what it returns, go
    through files in a directory that only this user can open; nothing listens for them.

    Args:
        func: anything that can be pickled; with cloudpickle installed also functions of the main program, lambdas
            and closures.
        np: the number of ranks.
        hosts: not yet; jobs over several hosts come with a later version.
        env: variables for the ranks, beside those of this process.
        launcher_args: flags for dabkerun, such as ["--timeline-filename", "trace.json"].

    Returns:
        the results, by rank.

    Raises:
        RunError: a rank failed; the others have been ended.
        InvalidArgumentError: the function cannot be pickled.
        UnimplementedError: `hosts` was given.
    """
    if hosts is not None:
        raise UnimplementedError("dabke.run: hosts is not there yet; ranks can be started on this host only")
    if np < 1:
        raise InvalidArgumentError(f"dabke.run: np={np}; at least one rank is needed")
    with tempfile.TemporaryDirectory(prefix="dabke-run-") as name:  # of mode 0700
        directory = Path(name)
        write_private(directory / "call", _pickled_call(func, tuple(args), dict(kwargs or {})))
        command = [find_dabkerun(), "-np", str(np), *launcher_args]
        command += [sys.executable, "-m", "dabke._run_worker", name]
        code, last_lines = _run_command(command, {**os.environ, **(env or {})})
        return _results(directory, np, code, last_lines)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only this user can open, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    unfinished.rename(path)


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
        raise InvalidArgumentError(f"dabke.run: the function or its arguments cannot be pickled: {error}") from error
    return pickle.dumps((sys.path, call))


def _run_command(command: list[str], env: dict[str, str]) -> tuple[int, list[str]]:
    """Its exit code and the last lines of its standard error, which is passed on as it comes."""
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stderr is not None
        reader = threading.Thread(target=_pass_on, args=(process.stderr, last_lines), daemon=True)
        reader.start()
        try:
            code = process.wait()
        except BaseException:
            process.terminate()  # dabkerun ends its ranks
            raise
        reader.join()
    return code, list(last_lines)


def _pass_on(stream: IO[str], last_lines: deque[str]) -> None:
    for line in stream:
        last_lines.append(line)
        sys.stderr.write(line)


def _results(directory: Path, np: int, code: int, last_lines: list[str]) -> list[Any]:
    results: dict[int, Any] = {}
    failures: dict[int, Failure] = {}
    for rank in range(np):
        file = directory / f"result-{rank}"
        if file.exists():
            outcome = pickle.loads(file.read_bytes())
            (failures if isinstance(outcome, Failure) else results)[rank] = outcome
    if failures:
        first = min(failures, key=lambda rank: (failures[rank].is_consequence, failures[rank].when))
        raise RunError(f"dabke.run: rank {first} failed:\n{failures[first].traceback}")
    if len(results) < np or code != 0:
        missing = [rank for rank in range(np) if rank not in results]
        told = f"ranks {missing} ended without a result" if missing else "it failed after all ranks had ended"
        raise RunError(f"dabke.run: {told}; dabkerun exited with {code}:\n{''.join(last_lines)}")
    return [pickle.loads(results[rank]) for rank in range(np)]
