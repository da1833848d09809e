#!/usr/bin/env python3
"""Two ranks print 100 MB each into one file: through dabkerun, and each through `sed -u`, which adds the same
prefix.

Usage: output_speed.py DABKERUN [--megabytes 100] [--line 80] [--times 3]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def seconds_of(commands, path):
    begin = time.monotonic()
    with open(path, "wb") as file:
        running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file) for command in commands]
        if any([each.wait() for each in running]):
            sys.exit("a command has failed")
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dabkerun", type=os.path.abspath)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--line", type=int, default=80)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    size = arguments.megabytes * 1_000_000 // arguments.line * arguments.line
    lines = f"yes {'x' * (arguments.line - 1)} | head -c {size}"
    by_sed = [["sh", "-c", f"{lines} | sed -u 's/^/[{rank}]<stdout>:/'"] for rank in (0, 1)]
    with tempfile.TemporaryDirectory() as place:
        ways = {"dabkerun": [[arguments.dabkerun, "-np", "2", "sh", "-c", lines]], "sed -u": by_sed}
        taken = {way: [] for way in ways}
        for _ in range(arguments.times):
            for way, commands in ways.items():
                path = os.path.join(place, "out")
                taken[way].append(seconds_of(commands, path))
                expected = 2 * size // arguments.line * (arguments.line + len("[0]<stdout>:"))
                if way == "dabkerun" and os.path.getsize(path) != expected:
                    sys.exit(f"{os.path.getsize(path)} bytes came instead of {expected}")
    for way, each in taken.items():
        print(f"{way}: {' '.join(f'{seconds:.2f}' for seconds in each)} s")
    print(f"least of dabkerun / least of sed -u: {min(taken['dabkerun']) / min(taken['sed -u']):.2f}")


if __name__ == "__main__":
    main()
