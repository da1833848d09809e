#!/usr/bin/env python3
"""Checks that clang-format 14 has formatted every C and C++ file. Exits with 77, which means skipped, without
clang-format.

usage: format.py ROOT
"""

import shutil
import subprocess
import sys

SOURCES = ("*.cc", "*.h", "*.c", "*.hpp")


def main():
    root = sys.argv[1]
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", *SOURCES], capture_output=True, text=True)
    if listed.returncode != 0:
        print(f"skipped: {root} is no checkout of git, which knows the project's own files")
        return 77
    if shutil.which("clang-format-14") is None:
        print("skipped: there is no clang-format 14; on Debian and Ubuntu: apt-get install clang-format-14")
        return 77
    files = [name for name in listed.stdout.split("\0") if name]
    if len(files) < 100:
        print(f"only {len(files)} files were found: the search is broken")
        return 1
    checked = subprocess.run(
        ["clang-format-14", "--dry-run", "--Werror", *files], cwd=root, capture_output=True, text=True
    )
    faults = [line for line in checked.stderr.splitlines() if "error:" in line]
    print("\n".join(faults) or f"{len(files)} files are well formatted")
    if faults:
        print("To settle it: git clang-format-14, or clang-format-14 -i with the files above")
    return 1 if checked.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
