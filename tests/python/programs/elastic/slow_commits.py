"""Runs a program, unchanged, whose commits take longer while the file ELASTIC_SLOW is there.

    slow_commits.py PROGRAM ARGUMENT...

So a test can make its changes before the training ends, however slowly processes start.
"""

import os
import runpy
import sys
import time

from dabke import elastic

PAUSE = 1.0  # seconds
commit = elastic.State.commit


def slow_commit(self):
    if os.path.exists(os.environ["ELASTIC_SLOW"]):
        time.sleep(PAUSE)
    commit(self)


elastic.State.commit = slow_commit
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
