"""A rank of ``dabke.run``: ``python -m dabke._run_worker DIRECTORY``."""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from pathlib import Path

from .errors import HorovodInternalError
from .run import Failure, pickler, write_private


def main() -> None:
    directory = Path(sys.argv[1])
    result = directory / f"result-{os.environ['DABKE_RANK']}"
    path, call = pickle.loads((directory / "call").read_bytes())
    sys.path[:] = path
    try:
        func, args, kwargs = pickle.loads(call)
        outcome = pickler().dumps(func(*args, **kwargs))
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            outcome = pickle.dumps(None)
        else:
            is_consequence = isinstance(error, HorovodInternalError)
            failure = Failure(traceback.format_exc(), is_consequence, time.time())
            write_private(result, pickle.dumps(failure))
            raise  # the exit hooks tell the others
    write_private(result, pickle.dumps(outcome))


if __name__ == "__main__":
    main()
