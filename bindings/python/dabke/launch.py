"""``python -m dabke.launch -np 4 python train.py``: dabkerun, with dabkerun's arguments."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from . import _core
from .errors import NotBuiltError

__all__ = ["find_dabkerun", "main"]


# The folder of each program in the build tree.
_FOLDERS = {"dabkerun": "launcher", "dabke-timeline": "timeline_viewer"}


def find_dabkerun() -> str:
    """Returns the path of dabkerun: beside the library that this package uses, or else on PATH.

    Raises:
        NotBuiltError: dabkerun was not found.
    """
    return _find("dabkerun")


def _find(name: str) -> str:
    compiled = Path(_core.__file__).resolve().parent
    installed = compiled == Path(__file__).resolve().parent  # in a build tree the sources lie elsewhere
    place = compiled / "bin" / name if installed else compiled.parents[2] / _FOLDERS[name] / name
    if os.access(place, os.X_OK):
        return str(place)
    found = shutil.which(name)
    if found is None or _is_our_script(found):
        raise NotBuiltError(f"{name} is neither next to this package nor on PATH; build the target {name}")
    return found


def _is_our_script(path: str) -> bool:
    """True for the console script of this package, which would call this function again."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def main() -> None:
    """Replaces this process by dabkerun. Returns only by an exception."""
    if {"--check-build", "-cb"} & set(sys.argv[1:]):
        os.environ["DABKE_PYTHON"] = sys.executable  # dabkerun reports its packages; PATH may have another
    os.execv(find_dabkerun(), ["dabkerun", *sys.argv[1:]])


def timeline_main() -> None:
    """Replaces this process by dabke-timeline. Returns only by an exception."""
    os.execv(_find("dabke-timeline"), ["dabke-timeline", *sys.argv[1:]])


if __name__ == "__main__":
    main()
