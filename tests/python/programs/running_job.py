"""A dabkerun that runs while a test reads its output."""

import os
import re
import subprocess
import threading
import time

LIMIT = 240  # seconds; only a hang takes longer


class RunningJob:
    """A context: dabkerun has ended after it."""

    def __init__(self, words, environment=None):
        self.process = subprocess.Popen(
            [os.environ["DABKERUN"], *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        self.text = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """After a failed check, dabkerun ends its ranks."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)
        self.reader.join(LIMIT)

    def _read(self):
        for line in self.process.stdout:
            self.text += line

    def wait_until(self, found, what):
        """Returns the first true value of `found`, a function of the output."""
        deadline = time.monotonic() + LIMIT
        while not (value := found(self.text)):
            assert time.monotonic() < deadline, f"no {what}:\n{self.text}"
            assert self.process.poll() is None, f"ended without {what}:\n{self.text}"
            time.sleep(0.01)
        return value

    def wait_for(self, pattern):
        """Returns the first match in the output."""
        return self.wait_until(lambda text: re.search(pattern, text), f"'{pattern}'")

    def finish(self):
        """Returns the whole output, after an end with status 0."""
        status = self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        assert status == 0, self.text
        return self.text
