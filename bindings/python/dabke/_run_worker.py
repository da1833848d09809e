"""A rank of ``dabke.run``: ``python -m dabke._run_worker [DIRECTORY]``."""

from __future__ import annotations

import pickle
import sys
import time
import traceback
from typing import Any

from . import job
from .errors import HorovodInternalError
from .run import Failure, Placed, pickler
from .run_transport import elastic_worker, rank_of


def main() -> None:
    rank = rank_of(sys.argv[1:])
    path, call = pickle.loads(rank.call())
    sys.path[:] = path
    try:
        func, args, kwargs = pickle.loads(call)
        outcome = _outcome(pickler().dumps(func(*args, **kwargs)))
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            if elastic_worker() is not None:
                raise  # the rank has left the job in good order, and has no result
            outcome = pickle.dumps(None)
        else:
            is_consequence = isinstance(error, HorovodInternalError)
            rank.give(pickle.dumps(Failure(traceback.format_exc(), is_consequence, time.time())))
            raise  # the exit hooks abort the job
    rank.give(pickle.dumps(outcome))


def _outcome(result: bytes) -> Any:
    """Returns the result; in an elastic job with its place among the results."""
    worker = elastic_worker()
    if worker is None:
        return result
    return Placed(job.rank() if job.is_initialized() else worker, result)


if __name__ == "__main__":
    main()
