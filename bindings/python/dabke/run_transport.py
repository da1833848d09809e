"""The transport of the call of ``dabke.run`` to its ranks, and of their outcomes back.

On one host, both go through files in a directory that only the user can open.

Between hosts, both use connections that dabkerun has anyway, by ssh and with proofs of the job's key.

1. The caller passes the call to dabkerun's standard input. dabkerun forwards it to rank 0, on any host.
2. Rank 0 puts the call into dabkerun's store. The other ranks read it there.
3. Each rank prints its outcome, in lines that begin with a token that only the caller and the ranks have. The
   caller removes these lines from dabkerun's output.

The processes of an elastic job have no input, and some start late. They get the call in variables, which
dabkerun forwards to all hosts.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import _core
from ._bootstrap.launcher_store import open_store
from .errors import InvalidArgumentError

__all__ = ["Caller", "Rank", "elastic_worker", "over_dabkerun", "rank_of", "through_files"]

_KEY = "python/run/call"
_TOKEN_SIZE = 32
_PIECE_SIZE = 3 * 1024  # bytes of an outcome in one line
_VARIABLE = "DABKE_RUN_CALL_"  # and a number from 0
_VARIABLE_SIZE = 96 * 1024  # Linux takes strings up to 128 KiB
_MOST_IN_VARIABLES = 768 * 1024  # in base64 it is 1 MiB; Linux takes 2 MiB with everything else


class Caller:
    """The caller's end of the transport."""

    arguments: list[str]  # of the worker

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}  # for the ranks, once the call is given

    def give(self, call: bytes) -> bytes | None:
        """Sends the call. Returns the input for dabkerun; None: no input, and its output is not read."""
        raise NotImplementedError

    def take_line(self, line: str) -> str:
        """Returns the part of a line from dabkerun that the caller is to print."""
        return line

    def outcomes(self) -> dict[int, bytes]:
        """Returns the outcomes by rank; of an elastic job by the number of the process."""
        raise NotImplementedError


class Rank:
    """A rank's end of the transport."""

    def call(self) -> bytes:
        raise NotImplementedError

    def give(self, outcome: bytes) -> None:
        raise NotImplementedError


def rank_of(arguments: list[str]) -> Rank:
    """Returns the rank's end, for the arguments that the caller has given to the worker."""
    worker = elastic_worker()
    rank = int(os.environ["DABKE_RANK"]) if worker is None else worker
    return _RankWithFiles(Path(arguments[0]), rank) if arguments else _RankUnderDabkerun(rank)


def elastic_worker() -> int | None:
    """Returns this process's number in an elastic job, which no other process of the job has had.

    None: the job is not elastic.
    """
    number = os.environ.get("DABKE_ELASTIC_WORKER")
    return None if number is None else int(number)


# ---- on one host ----


@contextlib.contextmanager
def through_files() -> Iterator[Caller]:
    with tempfile.TemporaryDirectory(prefix="dabke-run-") as name:  # of mode 0700
        yield _CallerWithFiles(Path(name))


class _CallerWithFiles(Caller):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.arguments = [str(directory)]

    def give(self, call: bytes) -> bytes | None:
        _write_private(self._directory / "call", call)
        return None

    def outcomes(self) -> dict[int, bytes]:
        files = [file for file in self._directory.glob("result-*") if not file.suffix]
        return {int(file.name.removeprefix("result-")): file.read_bytes() for file in files}


class _RankWithFiles(Rank):
    def __init__(self, directory: Path, rank: int) -> None:
        self._directory, self._rank = directory, rank

    def call(self) -> bytes:
        return (self._directory / "call").read_bytes()

    def give(self, outcome: bytes) -> None:
        _write_private(self._directory / f"result-{self._rank}", outcome)


def _write_private(path: Path, data: bytes) -> None:
    """Writes a file that only this user can open. The file appears only when it is complete."""
    unfinished = path.with_suffix(".unfinished")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    unfinished.rename(path)


# ---- between hosts ----


@contextlib.contextmanager
def over_dabkerun(is_elastic: bool) -> Iterator[Caller]:
    yield _CallerOfDabkerun(is_elastic)


class _CallerOfDabkerun(Caller):
    def __init__(self, is_elastic: bool) -> None:
        super().__init__()
        self._is_elastic = is_elastic
        self.arguments = []
        self._token = secrets.token_hex(_TOKEN_SIZE // 2)
        self._pieces: dict[int, list[str]] = {}

    def give(self, call: bytes) -> bytes | None:
        most = _MOST_IN_VARIABLES if self._is_elastic else _core.STORE_LARGEST_VALUE - _TOKEN_SIZE
        if len(call) > most:
            raise InvalidArgumentError(
                f"dabke.run: the function and its arguments take {len(call)} bytes, but at most {most} "
                f"can be sent between hosts{' in an elastic job' * self._is_elastic}; "
                "let the function read large data itself"
            )
        data = self._token.encode() + call
        if not self._is_elastic:
            return data
        text = base64.b64encode(data).decode()
        for number, begin in enumerate(range(0, len(text), _VARIABLE_SIZE)):
            self.variables[f"{_VARIABLE}{number}"] = text[begin : begin + _VARIABLE_SIZE]
        return b""

    def take_line(self, line: str) -> str:
        before, token, after = line.partition(self._token)
        if not token:
            return line
        rank, piece = after.split()
        self._pieces.setdefault(int(rank), []).append(piece)
        # Text that the rank itself had printed without an end of line is kept.
        return "" if not before or before.endswith("<stdout>:") else f"{before}\n"

    def outcomes(self) -> dict[int, bytes]:
        whole = {rank: pieces[:-1] for rank, pieces in self._pieces.items() if pieces[-1] == _END}
        return {rank: base64.b64decode("".join(pieces)) for rank, pieces in whole.items()}


_END = "."


class _RankUnderDabkerun(Rank):
    def __init__(self, rank: int) -> None:
        self._rank = rank
        # A copy of the standard output, because the function may close or redirect it.
        self._output = os.fdopen(os.dup(1), "wb")

    def call(self) -> bytes:
        data = self._data_of_input() if elastic_worker() is None else _data_of_variables()
        self._token = data[:_TOKEN_SIZE]
        return data[_TOKEN_SIZE:]

    def _data_of_input(self) -> bytes:
        store = open_store()
        if self._rank != 0:
            return store.get(_KEY, 0)
        data = sys.stdin.buffer.read()
        if not data:
            raise InvalidArgumentError(
                "dabke.run: rank 0 got no call; with hosts, dabkerun must not have --stdin none"
            )
        store.set(_KEY, data)
        return data

    def give(self, outcome: bytes) -> None:
        sys.stdout.flush()
        text = base64.b64encode(outcome)
        for begin in range(0, len(text), 4 * _PIECE_SIZE // 3):
            self._print(text[begin : begin + 4 * _PIECE_SIZE // 3])
        self._print(_END.encode())
        self._output.flush()

    def _print(self, piece: bytes) -> None:
        self._output.write(b"%s %d %s\n" % (self._token, self._rank, piece))


def _data_of_variables() -> bytes:
    """Returns the data, and removes its variables: processes that the function starts need them no more."""
    pieces: list[str] = []
    while (piece := os.environ.pop(f"{_VARIABLE}{len(pieces)}", None)) is not None:
        pieces.append(piece)
    return base64.b64decode("".join(pieces))
