"""The end of a program that does not call ``shutdown``: the other ranks get an error with the reason.

At the interpreter's exit the job is left as by ``shutdown``, so no rank waits for one that has gone. After an
uncaught exception the job is aborted with the exception's last line, file and line number. They become the
first cause on every rank and in dabkerun's last lines. Hooks that the program has installed are still called.

Some errors come because of another rank, or are the same on all ranks. One rank writes the traceback of such
an error. The other ranks write only the error and their own line. Tracebacks end before this package.
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
from .errors import AbortedError, DabkeError, HorovodInternalError, MismatchError

# Folders of code that is not the program's own: this package, the standard library, installed packages.
_LIBRARY_FOLDERS = tuple(
    os.path.join(os.path.abspath(folder), "")
    for folder in (
        os.path.dirname(__file__),
        *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
        *site.getsitepackages(),  # a distribution's own packages are only in these
    )
)
_installed = False
# Registered at import, so that it runs after all hooks that end threads which wait for the library.
atexit.register(_core.hold_back_other_threads)


def install() -> None:
    """Installs the hooks once for the process, at its first ``init``."""
    global _installed
    if _installed:
        return
    _installed = True
    _chain_excepthook()
    _chain_threading_excepthook()
    atexit.register(_leave)
    _core.provide_stacks()


def _leave() -> None:
    _core.remove_stack_provider()  # the interpreter's threads are about to end
    with contextlib.suppress(DabkeError):  # for example in a forked child
        _core.shutdown()


def _chain_excepthook() -> None:
    before = sys.excepthook

    def abort_first(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _abort(error, trace)
        if before is sys.__excepthook__:
            _write_at_once(
                lambda: _write_error(error, trace, lambda: before(kind, error, error.__traceback__))
            )
        else:
            before(kind, error, trace)

    sys.excepthook = abort_first


def _chain_threading_excepthook() -> None:
    """Aborts the job for an exception in a thread that has submitted operations, not in other threads."""
    before = threading.excepthook

    def abort_first(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and arguments.exc_type is not SystemExit:
            if _core.thread_has_submitted():
                _abort(arguments.exc_value, arguments.exc_traceback)
        if before is threading.__excepthook__:
            error = arguments.exc_value
            if error is None:
                _write_at_once(lambda: before(arguments))
            else:
                _write_at_once(
                    lambda: _write_error(error, arguments.exc_traceback, lambda: before(arguments))
                )
        else:
            before(arguments)

    threading.excepthook = abort_first


def _write_at_once(write: Callable[[], object]) -> None:
    """Writes the output of `write` to stderr in one piece.

    The interpreter's own hooks write in several pieces. Lines of the log would come between them, because the
    abort is logged at the same moment.
    """
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        write()
    with contextlib.suppress(
        AttributeError, OSError, ValueError
    ):  # stderr is None, its reader is gone, it is closed
        sys.stderr.write(text.getvalue())
        sys.stderr.flush()


def _write_error(
    error: BaseException, trace: TracebackType | None, write_traceback: Callable[[], object]
) -> None:
    """Writes an error that another rank writes in full in two lines.

    For all other errors calls the interpreter's own hook, without the frames of this package.
    """
    if _is_written_by_another(error):
        line = _own_line(trace)
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        at = f"  at {line[0]}:{line[1]} in {line[2]}\n" if line else ""
        sys.stderr.write(f"{name}: {error}\n{at}")
        return
    whole = error.__traceback__
    if isinstance(error, DabkeError):
        error.with_traceback(_without_own_frames(whole))
    write_traceback()
    error.with_traceback(whole)


def _is_written_by_another(error: BaseException) -> bool:
    if isinstance(error, AbortedError):
        return True
    try:
        return isinstance(error, (HorovodInternalError, MismatchError)) and _core.rank() != 0
    except DabkeError:  # the job has ended
        return False


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames of this package at its end."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while len(frames) > 1 and os.path.abspath(frames[-1].tb_frame.f_code.co_filename).startswith(
        _LIBRARY_FOLDERS[0]
    ):
        frames.pop()
    shown = None
    for each in reversed(frames):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shown


def _abort(error: BaseException, trace: TracebackType | None) -> None:
    if not _core.is_initialized():
        return
    with contextlib.suppress(Exception):
        _core.abort(last_line(error, trace))


def last_line(error: BaseException, trace: TracebackType | None) -> str:
    """Returns the error with the program's innermost line: "TypeError: unsupported operand (train.py:12)"."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", "; ")
    at = _own_line(trace)
    return f"{text} ({os.path.basename(at[0])}:{at[1]})" if at else text


def _own_line(trace: TracebackType | None) -> tuple[str, int, str] | None:
    """Returns path, line and function of the program's innermost frame, or else of the innermost frame."""
    lines = [
        (frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(trace)
    ]
    own = [
        each
        for each in lines
        if each[0][:1] != "<" and not os.path.abspath(each[0]).startswith(_LIBRARY_FOLDERS)
    ]
    return own[-1] if own else lines[-1] if lines else None
