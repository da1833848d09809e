"""The processes of a job, as tests see them."""

import os
import time


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} has not come within {seconds} s")
        time.sleep(0.02)


# PEER_TIMEOUT is the time of silence on a link after which the peer counts as lost. CLEAN_SECONDS is the time
# that the end of a job may take: twice dabkerun's grace period. Sanitizers get more of both, because they
# slow srun and ssh's agents down on a busy machine.
PEER_TIMEOUT = int(os.environ.get("DABKE_TEST_PEER_TIMEOUT", 3))
CLEAN_SECONDS = float(os.environ.get("DABKE_TEST_CLEAN_SECONDS", 8))


class Late(AssertionError):
    """The event has come in the end, but late."""


def in_time(trial, tries=3):
    """Returns the result of the first `trial` that is not late. A busy machine may be late more than once; a
    slow program is late every time."""
    for left in reversed(range(tries)):
        try:
            return trial()
        except Late:
            if left == 0:
                raise
    return None


def expect_clean(mark, begin, may_stay=lambda pid: False):
    """Checks that CLEAN_SECONDS after `begin`, by time.monotonic(), no process has the mark in its
    environment. Raises Late if the last process ends soon after."""
    left = []

    def nothing_left():
        left[:] = [pid for pid in processes_with(mark) if not may_stay(pid)]
        return not left

    try:
        wait_until(
            nothing_left, "the end of every process of the job", CLEAN_SECONDS - (time.monotonic() - begin)
        )
    except AssertionError as late:
        text = f"{late}: left are " + "; ".join(f"{pid}: {' '.join(command_of(pid))}" for pid in left)
        try:
            wait_until(nothing_left, "the end")
        except AssertionError:
            raise AssertionError(text) from None
        raise Late(text) from None


def end_of(process, seconds=200):
    """Returns the exit code, stdout and stderr."""
    out, error = process.communicate(timeout=seconds)
    return process.returncode, out.decode(errors="replace"), error.decode(errors="replace")


def text_of(path):
    """Returns the file's text. Empty if the file does not exist, or belongs to a process that ends during the
    call."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def processes_with(variable):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if variable.encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # the process has ended
    return found


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def is_pending(pid, signal_number):
    """True if the signal was sent to the process, which has not taken it yet."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file)
    return any(int(lines[each], 16) >> (signal_number - 1) & 1 for each in ("SigPnd", "ShdPnd"))


def is_child_of(pid, parent):
    try:
        return parent_of(pid) == parent
    except OSError:
        return False  # the process has ended


def command_of(pid):
    return text_of(f"/proc/{pid}/cmdline").split("\0")
