"""What tests see of the processes of a job."""

import os
import time


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} has not come within {seconds} s")
        time.sleep(0.02)


# Of silence on a link whose other end lives, and what the end of a job may take: dabkerun's grace period, and as much again.
# Sanitizers, which slow srun and ssh's agents down on a busy machine, get more of both.
PEER_TIMEOUT = int(os.environ.get("DABKE_TEST_PEER_TIMEOUT", 3))
CLEAN_SECONDS = float(os.environ.get("DABKE_TEST_CLEAN_SECONDS", 8))


class Late(AssertionError):
    """It has come in the end."""


def in_time(trial, tries=3):
    """What `trial` gives where it is not late. A busy machine may be so more than once, what is slow by itself is so each time."""
    for left in reversed(range(tries)):
        try:
            return trial()
        except Late:
            if left == 0:
                raise
    return None


def expect_clean(mark, begin, may_stay=lambda pid: False):
    """Nothing is left CLEAN_SECONDS after `begin`, by time.monotonic(), of what has the mark in its environment. Late: but soon
    after."""
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
    """Its exit code, and what it has said on both of its ways."""
    out, error = process.communicate(timeout=seconds)
    return process.returncode, out.decode(errors="replace"), error.decode(errors="replace")


def text_of(path):
    """Empty while there is no such file, and where it is of a process that ends meanwhile."""
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
            pass  # it has ended
    return found


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def is_child_of(pid, parent):
    try:
        return parent_of(pid) == parent
    except OSError:
        return False  # it has ended


def command_of(pid):
    return text_of(f"/proc/{pid}/cmdline").split("\0")
