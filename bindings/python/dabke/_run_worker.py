"""A rank of ``dabke.run``: ``python -m dabke._run_worker [DIRECTORY]``."""

from __future__ import annotations

import pickle
import sys
import time
import traceback

from .errors import HorovodInternalError
from .run import Failure, pickler
from .run_transport import rank_of


def main() -> None:
    rank = rank_of(sys.argv[1:])
    path, call = pickle.loads(rank.call())
    sys.path[:] = path
    try:
        func, args, kwargs = pickle.loads(call)
        outcome = pickler().dumps(func(*args, **kwargs))
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            outcome = pickle.dumps(None)
        else:
            is_consequence = isinstance(error, HorovodInternalError)
            rank.give(pickle.dumps(Failure(traceback.format_exc(), is_consequence, time.time())))
            raise  # the exit hooks abort the job
    rank.give(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
