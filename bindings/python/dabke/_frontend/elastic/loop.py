"""The loop of an elastic program, from one epoch of the job to the next.

1. The state is synced, and after a change the reset callbacks run.
2. The program's function runs, to its end or to one of the two exceptions.
3. The rank goes to the next epoch with the number of its newest commit. After a failure the values of that
   commit are restored. After a change of hosts the values are kept.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ... import epochs
from ...errors import HorovodInternalError, InvalidArgumentError
from .failures import HostsUpdatedInterrupt, failure_in
from .state import State

__all__ = ["run"]

F = TypeVar("F", bound=Callable[..., Any])


def run(func: F) -> F:
    """Decorates a training function that goes on when ranks are lost or come.

        @hvd.elastic.run
        def train(state):
            while state.epoch < 10:
                ...
                state.epoch += 1
                state.commit()

    The function is called again after each change, with the state of the newest commit on every rank. It must
    begin where the state stands. A rank that leaves the job in good order ends with status 0 here. In a job
    that is not elastic, the function runs once.

    Args:
        func: a function whose first argument is a ``State``.

    Returns:
        a function with the same arguments and the same result.

    Raises:
        InvalidArgumentError: the first argument is not a ``State``.
        HorovodInternalError: a rank was lost and the job is not elastic.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(state, State):
            raise InvalidArgumentError(
                f"elastic.run: the first argument of {getattr(func, '__name__', 'the function')} is a "
                f"{type(state).__name__}; pass a state, such as ObjectState(epoch=0)"
            )
        epochs.note_run()
        while True:
            is_lost, is_training = False, False
            try:
                state._begin_epoch()
                is_training = True
                return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt:
                state._keep()
            except Exception as error:
                failure = failure_in(error)
                if failure is None:
                    raise
                if not epochs.is_elastic():
                    raise _with_advice(failure) from error
                is_lost = True
                del failure  # it may be the exception, whose traceback has the objects of the function
            # Outside of the handlers, so that these objects are free.
            _go_to_next_epoch(state, state._lost_steps(is_training) if is_lost else 0)
            if is_lost:
                state.restore()

    return wrapper  # type: ignore[return-value]


def _with_advice(failure: HorovodInternalError) -> HorovodInternalError:
    return type(failure)(
        f"{failure}; this job is not elastic, so it ends; start it with dabkerun --min-np to let the "
        "other ranks go on"
    )


def _go_to_next_epoch(state: State, repeated_steps: int) -> None:
    epoch = epochs.next_epoch(state._number, repeated_steps)
    if epoch.left is not None:
        print(f"dabke: this rank has left the job: {epoch.left}", file=sys.stderr, flush=True)
        raise SystemExit(0)
