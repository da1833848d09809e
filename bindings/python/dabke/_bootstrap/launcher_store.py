"""A job of some of dabkerun's processes, over the store that dabkerun serves to all of them.

runtime/store/store_protocol.h describes the store's protocol; ``_core`` has its names and limits from there.
Each connection has one HTTP request. Each request and each answer has a proof that its sender has the job's
key. This client has only the requests that an exchange needs.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import itertools
import os
import secrets
import time
import urllib.parse

from .. import _core
from ..errors import InvalidArgumentError, PeerLostError, TimedOutError, TransportError
from .exchange import PATIENCE_SECONDS, Bootstrap
from .job_key import key_of_job

_CHECK_MS = 500  # between two checks that the other rank still runs
_ANSWER_SECONDS = 15.0


def exchange_among(ranks: list[int]) -> Bootstrap:
    """Returns an exchange between those processes of dabkerun that are in `ranks`, with this one."""
    mine = _number("RANK")
    size = _number("SIZE")
    if len(set(ranks)) != len(ranks) or any(not 0 <= each < size for each in ranks):
        raise InvalidArgumentError(f"init: comm={ranks} must name different ranks from 0 to {size - 1}")
    if mine not in ranks:
        raise InvalidArgumentError(
            f"init: this is rank {mine}, which is not in comm={ranks}; only its ranks may call init"
        )
    store = open_store()
    number = ranks.index(mine)
    job = "python/" + "-".join(map(str, ranks))
    start = store.increment(f"{job}/starts/{number}")
    steps = iter(("hosts", "job"))

    def exchange(data: bytes) -> bytes:
        step = f"{job}/{start}/{next(steps)}"
        store.set(f"{step}/{number}", data)
        return b"".join(store.get(f"{step}/{other}", ranks[other]) for other in range(len(ranks)))

    return Bootstrap(exchange, number, len(ranks))


def _setting(name: str) -> str:
    return _needed(name, os.environ.get(f"DABKE_{name}") or os.environ.get(f"HOROVOD_{name}"))


def _needed(name: str, value: str | None) -> str:
    if not value:
        raise InvalidArgumentError(
            f"init: comm as a list of ranks needs dabkerun, but DABKE_{name} is not set; "
            "without dabkerun, pass a store or an exchange"
        )
    return value


def _number(name: str) -> int:
    return int(_setting(name))


def open_store() -> Store:
    """Opens the store that dabkerun serves to this process."""
    return Store(_setting("RENDEZVOUS"), _setting("JOB_ID"), bytes.fromhex(_needed("JOB_KEY", key_of_job())))


class Store:
    """A client of dabkerun's store. Nonces are counted, so that a recorded request cannot be replayed."""

    def __init__(self, url: str, job: str, key: bytes) -> None:
        address = urllib.parse.urlsplit(url)
        if address.scheme != "http" or address.hostname is None or address.port is None:
            raise InvalidArgumentError(
                f"init: comm as a list of ranks needs dabkerun's store; DABKE_RENDEZVOUS is '{url}'"
            )
        self._host, self._port = address.hostname, address.port
        self._job, self._key = job, key
        self._client, self._numbers = secrets.token_hex(16), itertools.count(1)

    def set(self, key: str, value: bytes) -> None:
        self._request("PUT", _core.STORE_VALUE_PATH + _quoted(key), value)

    def increment(self, key: str, amount: int = 1) -> int:
        """Adds to a counter, which is 0 at first, and returns the sum."""
        query = f"?{_core.STORE_AMOUNT_PARAMETER}={amount}"
        return int(self._request("POST", _core.STORE_COUNTER_PATH + _quoted(key) + query)[1])

    def find(self, key: str, wait_ms: int = 0) -> bytes | None:
        """Returns the value; None if nobody has set the key within `wait_ms`."""
        query = f"?{_core.STORE_WAIT_PARAMETER}={wait_ms}"
        status, value = self._request("GET", _core.STORE_VALUE_PATH + _quoted(key) + query)
        return value if status == _core.STORE_OK else None

    def remove(self, key: str) -> None:
        """Removes the key, and all keys below it."""
        self._request("DELETE", _core.STORE_VALUE_PATH + _quoted(key))

    def get(self, key: str, rank: int) -> bytes:
        """Waits until `rank` has set the key, and returns the value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            value = self.find(key, _CHECK_MS)
            if value is not None:
                return value
            self.check_runs(
                f"ended/{rank}", f"rank {rank}", "before calling dabke.init(); all ranks of comm must call it"
            )
        raise TimedOutError(f"init: rank {rank} did not call init within {PATIENCE_SECONDS:.0f} s")

    def check_runs(self, key: str, name: str, when: str) -> None:
        """Raises PeerLostError if a process has ended. dabkerun stores its end (runtime/base/ended_rank.h).

        Args:
            key: the key of its end, below the job's keys.
            name: its name in the error.
            when: the end of the error's text.
        """
        text = self.find(f"{self._job}/{key}")
        if text is not None:
            status, _, _, _, host = text.decode().split(" ")
            raise PeerLostError(f"{name} on {host} ended with status {status} {when}")

    def _request(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        nonce = f"{self._client}-{next(self._numbers)}"
        seal = self._proof(_core.store_body_message(body))
        headers = {
            "Connection": "close",
            _core.STORE_JOB_HEADER: self._job,
            _core.STORE_NONCE_HEADER: nonce,
            _core.STORE_BODY_HEADER: seal,
            _core.STORE_PROOF_HEADER: self._proof(
                _core.store_request_message(self._job, method, target, nonce, seal)
            ),
        }
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=_core.STORE_LONGEST_WAIT_MS / 1000 + _ANSWER_SECONDS
        )
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise TransportError(f"init: no answer from dabkerun's store: {error}") from error
        finally:
            connection.close()
        wanted = self._proof(_core.store_answer_message(nonce, answer.status, content))
        if not hmac.compare_digest(wanted, answer.headers.get(_core.STORE_PROOF_HEADER, "")):
            raise InvalidArgumentError(
                f"init: dabkerun's store refused this process (status {answer.status}); DABKE_RENDEZVOUS, "
                "DABKE_JOB_ID and DABKE_JOB_KEY must come from one dabkerun"
            )
        if answer.status not in (_core.STORE_OK, _core.STORE_NOT_THERE):
            raise TransportError(f"init: dabkerun's store answered {method} with status {answer.status}")
        return answer.status, content

    def _proof(self, message: bytes) -> str:
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def _quoted(key: str) -> str:
    return urllib.parse.quote(key, safe="/")
