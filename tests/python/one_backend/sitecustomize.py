"""Hides the frameworks that are not Keras's backend from a program, as if they were not installed.

Keras imports each framework that it finds: some seconds of each process. Python runs this file at its start
if PYTHONPATH has this folder.
"""

import os
import sys
from importlib.machinery import PathFinder

HIDDEN = {"jax", "tensorflow", "torch"} - {os.environ.get("KERAS_BACKEND")}


class WithoutHidden(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname in HIDDEN else super().find_spec(fullname, path, target)


sys.meta_path[:] = [WithoutHidden if each is PathFinder else each for each in sys.meta_path]
