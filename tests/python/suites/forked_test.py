"""One test of PyTorch's in processes of its own: one for each rank, forked after the imports.

PyTorch's runner starts an interpreter for each rank of each test. That takes seconds, most of them for
imports.
"""

import atexit
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback

OTHERS_PATIENCE_SECONDS = 3  # after a rank has failed
LINES_OF_A_RANK = 12
ADVICE = re.compile(r"^(frame )?#|To execute this test|distributed_test.py Tests|REPRO_ON_FAILURE|^ *\^+$")


class ForkedTest:
    """A running test. `poll` returns its outcome as (outcome, reason), or None."""

    def __init__(self, tests, name, ranks, limit_seconds, skip_codes):
        self.name, self._limit, self._skip_codes = name, limit_seconds, skip_codes
        self.folder = tempfile.mkdtemp(prefix="dabke-suite-")
        for each in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(self.folder, each))
        self._begin = time.monotonic()
        self._codes = {}
        self._failed_at = None
        self._is_late = False
        self._running = {self._fork(tests, rank): rank for rank in range(ranks)}
        self._ranks = ranks

    def _fork(self, tests, rank):
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _run_rank(tests, self.name, rank, self.folder)
        return process

    @property
    def seconds(self):
        return time.monotonic() - self._begin

    def poll(self):
        for process in list(self._running):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                self._codes[self._running.pop(process)] = code
                if code != 0 and code not in self._skip_codes and self._failed_at is None:
                    self._failed_at = time.monotonic()
        is_late = self.seconds > self._limit
        is_broken = self._failed_at and time.monotonic() - self._failed_at > OTHERS_PATIENCE_SECONDS
        if self._running and (is_late or is_broken):
            self._is_late = self._is_late or is_late
            for process in self._running:
                os.kill(process, signal.SIGKILL)
        if self._running:
            return None
        outcome = self._outcome()
        shutil.rmtree(self.folder, ignore_errors=True)
        return outcome

    def _outcome(self):
        codes = [self._codes[rank] for rank in range(self._ranks)]
        if not any(codes):
            return "passed", ""
        if not self._is_late and all(code == 0 or code in self._skip_codes for code in codes):
            return "skipped", next(self._skip_codes[code] for code in codes if code)
        said = [f"no end within {self._limit} s"] if self._is_late else []
        # The rank that ended first comes last, where a report shows the most.
        for rank, code in reversed(self._codes.items()):
            said += [f"rank {rank} ended with {code}", *_last_lines(os.path.join(self.folder, f"{rank}.log"))]
        return "failed", "\n".join(said)


def _run_rank(tests, name, rank, folder):
    """Runs one rank, and ends its process."""
    code = 1
    try:
        log = os.open(os.path.join(folder, f"{rank}.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ["TEMP_DIR"] = folder
        os.environ["INIT_METHOD"] = f"file://{folder}/init_dir/shared_init_file"
        sys.modules[tests.__module__].INIT_METHOD = os.environ["INIT_METHOD"]
        _, pipe = multiprocessing.Pipe()
        try:
            tests._run(rank, name, os.path.join(folder, "meeting"), pipe)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _last_lines(file):
    try:
        with open(file, errors="replace") as log:
            lines = [line.rstrip() for line in log]
    except FileNotFoundError:
        return []
    # The log's prefixes, torch's advice and its C++ stack trace hide the error.
    plain = [re.sub(r"^(\[rank\d+\]:)?[EWI]\d{4} \S+ \d+ \S+\] ?", "", line) for line in lines]
    plain = [line for line in plain if line.strip() and not ADVICE.search(line)]
    return [f"  {line}" for line in plain[-LINES_OF_A_RANK:]]
