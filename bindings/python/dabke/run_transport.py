"""The transport of the call of ``dabke.run`` to its ranks, and of their outcomes back.

On one host, both go through files in a directory that only the user can open.

Between hosts, both use connections that dabkerun has anyway, by ssh and with proofs of the job's key.

1. The caller passes the call to dabkerun's standard input. dabkerun forwards it to rank 0, on any host.
2. Rank 0 puts the call into dabkerun's store. The other ranks read it there.
3. Each rank prints its outcome, in lines that begin with a token that only the caller and the ranks have. The
   caller removes these lines from dabkerun's output.
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

__all__ = ["Caller", "Rank", "over_dabkerun", "rank_of", "through_files"]

_KEY = "python/run/call"
_TOKEN_SIZE = 32
_PIECE_SIZE = 3 * 1024  # bytes of an outcome in one line


class Caller:
    """The caller's end of the transport."""

    arguments: list[str]  # of the worker

    def give(self, call: bytes) -> bytes | None:
        """Sends the call. Returns the input for dabkerun; None: no input, and its output is not read."""
        raise NotImplementedError

    def take_line(self, line: str) -> str:
        """Returns the part of a line from dabkerun that the caller is to print."""
        return line

    def outcomes(self, np: int) -> dict[int, bytes]:
        """Returns the outcomes by rank. Ranks without an outcome are left out."""
        raise NotImplementedError


class Rank:
    """A rank's end of the transport."""

    def call(self) -> bytes:
        raise NotImplementedError

    def give(self, outcome: bytes) -> None:
        raise NotImplementedError


def rank_of(arguments: list[str]) -> Rank:
    """Returns the rank's end, for the arguments that the caller has given to the worker."""
    rank = int(os.environ["DABKE_RANK"])
    return _RankWithFiles(Path(arguments[0]), rank) if arguments else _RankUnderDabkerun(rank)


# ---- on one host ----


@contextlib.contextmanager
def through_files() -> Iterator[Caller]:
    with tempfile.TemporaryDirectory(prefix="dabke-run-") as name:  # of mode 0700
        yield _CallerWithFiles(Path(name))


class _CallerWithFiles(Caller):
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.arguments = [str(directory)]

    def give(self, call: bytes) -> bytes | None:
        _write_private(self._directory / "call", call)
        return None

    def outcomes(self, np: int) -> dict[int, bytes]:
        files = {rank: self._directory / f"result-{rank}" for rank in range(np)}
        return {rank: file.read_bytes() for rank, file in files.items() if file.exists()}


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
def over_dabkerun() -> Iterator[Caller]:
    yield _CallerOfDabkerun()


class _CallerOfDabkerun(Caller):
    def __init__(self) -> None:
        self.arguments = []
        self._token = secrets.token_hex(_TOKEN_SIZE // 2)
        self._pieces: dict[int, list[str]] = {}

    def give(self, call: bytes) -> bytes | None:
        if len(call) > _core.STORE_LARGEST_VALUE - _TOKEN_SIZE:
            raise InvalidArgumentError(
                f"dabke.run: the function and its arguments take {len(call)} bytes, but at most "
                f"{_core.STORE_LARGEST_VALUE - _TOKEN_SIZE} can be sent between hosts; "
                "let the function read large data itself"
            )
        return self._token.encode() + call

    def take_line(self, line: str) -> str:
        before, token, after = line.partition(self._token)
        if not token:
            return line
        rank, piece = after.split()
        self._pieces.setdefault(int(rank), []).append(piece)
        # Text that the rank itself had printed without an end of line is kept.
        return "" if not before or before.endswith("<stdout>:") else f"{before}\n"

    def outcomes(self, np: int) -> dict[int, bytes]:
        whole = {rank: pieces[:-1] for rank, pieces in self._pieces.items() if pieces[-1] == _END}
        return {rank: base64.b64decode("".join(pieces)) for rank, pieces in whole.items()}


_END = "."


class _RankUnderDabkerun(Rank):
    def __init__(self, rank: int) -> None:
        self._rank = rank
        # A copy of the standard output, because the function may close or redirect it.
        self._output = os.fdopen(os.dup(1), "wb")

    def call(self) -> bytes:
        store = open_store()
        if self._rank == 0:
            data = sys.stdin.buffer.read()
            if not data:
                raise InvalidArgumentError(
                    "dabke.run: rank 0 got no call; with hosts, dabkerun must not have --stdin none"
                )
            store.set(_KEY, data)
        else:
            data = store.get(_KEY, 0)
        self._token = data[:_TOKEN_SIZE]
        return data[_TOKEN_SIZE:]

    def give(self, outcome: bytes) -> None:
        sys.stdout.flush()
        text = base64.b64encode(outcome)
        for begin in range(0, len(text), 4 * _PIECE_SIZE // 3):
            self._print(text[begin : begin + 4 * _PIECE_SIZE // 3])
        self._print(_END.encode())
        self._output.flush()

    def _print(self, piece: bytes) -> None:
        self._output.write(b"%s %d %s\n" % (self._token, self._rank, piece))
