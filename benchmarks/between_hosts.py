#!/usr/bin/env python3
"""Runs allreduces between hosts made of network namespaces, and prints a table.

Dabke's choice is beside Gloo's own algorithms.

sudo benchmarks/between_hosts.py                          # two hosts of one rank, then two of two
sudo benchmarks/between_hosts.py --ranks 0,0,1,1          # the host of each rank
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "multiproc" / "hosts"))
import namespaces  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=str(ROOT / "build/benchmarks/between_hosts"))
    parser.add_argument("--ranks", action="append", help="the host of each rank, such as 0,0,1,1")
    arguments = parser.parse_args()
    failed = False
    for text in arguments.ranks or ["0,1", "0,0,1,1"]:
        places = [int(host) for host in text.split(",")]
        with namespaces.Hosts(max(places) + 1) as hosts:
            ranks = hosts.start(places, [arguments.program])
            codes = [rank.wait() for rank in ranks]
            print(f"\nRanks on hosts {text}:\n")
            print(namespaces.output(ranks[0]), end="")
            for rank, code in zip(ranks, codes):
                if code != 0:
                    failed = True
                    print(namespaces.output(rank), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except namespaces.NotPermitted as why:
        sys.exit(f"no network namespaces here: {why}")
