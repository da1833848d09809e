"""The end of a program that does not call ``shutdown``: the others are told, and told why.

At the interpreter's exit the job is left as by ``shutdown``, so nobody waits for a rank that has gone. After an
exception that nobody caught the job is aborted with its last line, file and line number, which becomes the first cause
on every rank and in dabkerun's last lines. The hooks that were there before are called as before.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import site
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from types import TracebackType

from . import _core
from .errors import DabkeError

# Where lines lie that are nobody's own: this package, the standard library, what is installed.
_OTHERS = tuple(
    os.path.join(os.path.abspath(folder), "")
    for folder in (
        os.path.dirname(__file__),
        *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
        *site.getsitepackages(),  # those of a distribution's own packages are here alone
    )
)
_installed = False
# Registered at import, so that it is called after everything that ends threads which wait for the library.
atexit.register(_core.hold_back_other_threads)


def install() -> None:
    """Once for the process, at its first ``init``."""
    global _installed
    if _installed:
        return
    _installed = True
    _chain_excepthook()
    _chain_threading_excepthook()
    atexit.register(_leave)
    _core.provide_stacks()


def _leave() -> None:
    _core.remove_stack_provider()  # the interpreter's threads are about to go
    with contextlib.suppress(DabkeError):  # in a forked child, for one
        _core.shutdown()


def _chain_excepthook() -> None:
    before = sys.excepthook

    def abort_first(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _abort(error, trace)
        if before is sys.__excepthook__:
            _call_writing_at_once(before, kind, error, trace)
        else:
            before(kind, error, trace)

    sys.excepthook = abort_first


def _chain_threading_excepthook() -> None:
    """A thread that takes part in the job ends it as the program would; any other thread is not our business."""
    before = threading.excepthook

    def abort_first(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and arguments.exc_type is not SystemExit:
            if _core.thread_has_submitted():
                _abort(arguments.exc_value, arguments.exc_traceback)
        if before is threading.__excepthook__:
            _call_writing_at_once(before, arguments)
        else:
            before(arguments)

    threading.excepthook = abort_first


def _call_writing_at_once(hook: Callable[..., object], *arguments: object) -> None:
    """What the interpreter's own hooks write, they write in pieces, between which this process's log would come: the
    abort is logged just then."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        hook(*arguments)
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, nobody reads it, it is closed
        sys.stderr.write(text.getvalue())
        sys.stderr.flush()


def _abort(error: BaseException, trace: TracebackType | None) -> None:
    if not _core.is_initialized():
        return
    with contextlib.suppress(Exception):
        _core.abort(last_line(error, trace))


def last_line(error: BaseException, trace: TracebackType | None) -> str:
    """"TypeError: unsupported operand (train.py:12)": the innermost line that is the program's own."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", "; ")
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    own = [(path, line) for path, line in lines if path[:1] != "<" and not os.path.abspath(path).startswith(_OTHERS)]
    if not lines:
        return text
    path, line = (own or lines)[-1]
    return f"{text} ({os.path.basename(path)}:{line})"
