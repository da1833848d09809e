#!/usr/bin/env python3
"""Checks the functions that bindings/c/order_of_call.ld places side by side against the symbols of a library.

The linker ignores an unknown name, so a function that moves to another namespace silently loses its place.
The check fails if more than a twentieth of the names are missing. A few names are missing whenever the
compiler inlines a little differently.

usage: order_of_call.py BUILD       a folder of --buildtype=release, whose library is not stripped
"""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bindings/c/order_of_call.ld"
SHARE = 20  # one in SHARE names may be missing
SHOWN = 5


def read_patterns(text):
    """Returns the patterns in the linker's script; each represents all symbols that it matches."""
    return re.findall(r"^ *\*\(\.text\.(\S+)\)$", text, re.MULTILINE)


def symbols_of(library):
    done = subprocess.run(["nm", "--defined-only", library], check=True, capture_output=True, text=True)
    return [row.split()[2] for row in done.stdout.splitlines() if len(row.split()) == 3]


def missing_from(patterns, symbols):
    names = "\n".join(symbols)
    return [
        each
        for each in patterns
        if not re.search(f"^{re.escape(each).replace(re.escape('*'), '.*')}$", names, re.MULTILINE)
    ]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    library = os.path.join(build, "bindings/c/libdabke.so")
    if not os.path.exists(library):
        sys.exit(f"there is no {library}: ninja -C {build}")
    patterns, symbols = read_patterns(SCRIPT.read_text(encoding="utf-8")), symbols_of(library)
    if not patterns or not symbols:
        sys.exit(
            f"{SCRIPT} has {len(patterns)} names, and {library} {len(symbols)} symbols: "
            "the check is broken, or it is stripped"
        )
    missing = missing_from(patterns, symbols)
    if len(missing) * SHARE > len(patterns):
        print("\n".join(missing[:SHOWN]))
        sys.exit(
            f"{len(missing)} of the {len(patterns)} functions in {SCRIPT.name} are not in {library}, "
            "as those above. "
            f"They have other names now, or are gone; write the file anew:\n"
            f"  meson configure {build} -Dbenchmarks=enabled && "
            f"ninja -C {build} benchmarks/one_call launcher/dabkerun && "
            f"benchmarks/lines_of_a_call.py {build} --write-order bindings/c/order_of_call.ld"
        )
    print(
        f"{len(patterns) - len(missing)} of the {len(patterns)} functions in {SCRIPT.name} are in {library}"
    )


if __name__ == "__main__":
    main()
