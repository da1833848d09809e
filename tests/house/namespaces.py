#!/usr/bin/env python3
"""Checks the namespace of every file against the table of namespaces in docs/architecture.md.

The table's first column lists folders, its last the namespaces that their files open. If two folders hold a
file, the inner one counts. A file may also open namespaces inside its own, and any other namespace for a
forward declaration.

usage: namespaces.py [ROOT]
"""

import re
import subprocess
import sys
from pathlib import Path

from arrows import read_table, room_of

NAMESPACE = re.compile(r"^namespace (dabke[a-z_:]*) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
FORWARD = re.compile(r"\s*((class|struct|enum class) \w+;\s*)*")


def faults_of(path, text, table):
    folder = room_of(path, table)
    if folder is None:
        return
    for found in NAMESPACE.finditer(text):
        name = found[1]
        is_allowed = name in table[folder] or any(
            name.startswith(each + "::") for each in table[folder] if each != "dabke"
        )
        if not is_allowed and not FORWARD.fullmatch(found[2]):
            yield f"{path} opens {name}; what lies in {folder} is in {' or '.join(table[folder])}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    table = read_table((root / "docs/architecture.md").read_text(), "namespace")
    files = subprocess.run(
        ["git", "-C", root, "ls-files", "*.h", "*.cc", "*.cu", "*.h.in"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    faults = [fault for path in files for fault in faults_of(path, (root / path).read_text(), table)]
    print("\n".join(faults) or f"{len(files)} files are in the namespaces of their {len(table)} folders")
    sys.exit(bool(faults) or not table)


if __name__ == "__main__":
    main()
