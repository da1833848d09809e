#!/usr/bin/env python3
"""Checks the number of files in each folder: at most 30, under tests/ 40. Rooms with more than ten files need
a README.

meson.build, README.md and inputs of the fuzzers do not count.

usage: folders.py [ROOT]
"""

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath

MOST, MOST_OF_TESTS, MOST_WITHOUT_README = 30, 40, 10
ROOMS = ("runtime", "ops", "launcher", "timeline_viewer", "bindings")
NOT_COUNTED = ("meson.build", "README.md")


def files_by_folder(paths):
    counted = (PurePosixPath(path) for path in paths)
    return Counter(
        str(path.parent) for path in counted if path.name not in NOT_COUNTED and "corpus" not in path.parts
    )


def most_in(folder):
    return MOST_OF_TESTS if folder.split("/")[0] == "tests" else MOST


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout
    folders = files_by_folder(filter(None, listed.split("\0")))
    if len(folders) < 50:
        sys.exit(f"only {len(folders)} folders were seen: the search is broken")
    full = [
        f"{folder} has {count} files, {most_in(folder)} are the most: fold it"
        for folder, count in folders.items()
        if count > most_in(folder)
    ]
    full += [
        f"{folder} has {count} files and no README.md: write one, with a line for the idea of each file"
        for folder, count in folders.items()
        if folder.split("/")[0] in ROOMS
        and count > MOST_WITHOUT_README
        and f"{folder}/README.md" not in listed.split("\0")
    ]
    largest, count = folders.most_common(1)[0]
    print("\n".join(full) or f"{len(folders)} folders, the largest {largest} with {count} files")
    sys.exit(bool(full))


if __name__ == "__main__":
    main()
