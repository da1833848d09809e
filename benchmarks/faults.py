#!/usr/bin/env python3
"""Measures how soon all others notice that a rank is dead: kill -9 of a rank at a random moment.

  benchmarks/faults.py                     # 3 ranks, 50 kills a row
  benchmarks/faults.py -np 8 --kills 10

A survivor has noticed once its collective has returned an error that names the dead rank. Survivors are
measured without dabkerun, which would end them. dabkerun's time is from the kill to its own end, with every
rank gone. Ends with code 1 if one of them takes longer than promised, or blames another rank.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from arguments import positive

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMISED_TO_SURVIVORS = 2.0  # seconds
PROMISED_OF_DABKERUN = 5.0
PATIENCE = 60.0  # whatever takes longer hangs

LARGE = str(64 << 20)
ROWS = {  # the label: environment, arguments of the rank
    "4 KB, shared memory": ({}, []),
    "4 KB, TCP": ({"DABKE_CONTROLLER": "tcp", "DABKE_CPU_OPERATIONS": "tcp"}, []),
    "4 KB, Gloo": ({"DABKE_CONTROLLER": "tcp", "DABKE_CPU_OPERATIONS": "gloo"}, []),
    "64 MB, shared memory": ({}, ["--bytes", LARGE]),
    "64 MB, Gloo": ({"DABKE_CONTROLLER": "tcp", "DABKE_CPU_OPERATIONS": "gloo"}, ["--bytes", LARGE]),
    "others wait for the rank": ({}, ["--waits-for", "VICTIM"]),
    "others ignore SIGTERM": ({}, ["--ignores-sigterm"]),
}


class Bench:
    def __init__(self, arguments):
        self.ranks = arguments.ranks
        self.kills = arguments.kills
        self.launcher = arguments.build / "launcher/dabkerun"
        self.rank = arguments.build / "benchmarks/faults/faults_rank"
        for program in (self.launcher, self.rank):
            if not program.exists():
                sys.exit(
                    f"'{program}' is not there: build it with `meson compile -C {arguments.build}`, "
                    "or name the build by --build"
                )
        self.random = random.Random(1)
        self.faults = []

    def command(self, options, victim):
        return [str(self.rank), *(str(victim) if word == "VICTIM" else word for word in options)]

    def dawdle(self):
        time.sleep(self.random.random() * 0.1)  # anywhere in a collective

    def survivors(self, variables, options):
        """Returns the seconds until the last survivor knew."""
        victim = self.random.randrange(self.ranks)
        with tempfile.TemporaryDirectory(prefix="faults-") as place:

            def start(rank):
                own = dict(
                    os.environ,
                    **variables,
                    DABKE_RANK=str(rank),
                    DABKE_SIZE=str(self.ranks),
                    DABKE_RENDEZVOUS=f"file:{place}",
                    DABKE_LOG_LEVEL="fatal",
                )
                return subprocess.Popen(
                    self.command(options, victim),
                    env=own,
                    text=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )

            ranks = [start(rank) for rank in range(self.ranks)]
            try:
                for rank in ranks:
                    if not rank.stdout.readline().startswith("ready"):
                        sys.exit(
                            f"a rank ended before it was killed: {' '.join(self.command(options, victim))}"
                        )
                self.dawdle()
                killed = time.monotonic()
                ranks[victim].kill()
                lines = [rank.stdout.readline() for i, rank in enumerate(ranks) if i != victim]
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.wait()
                    rank.stdout.close()
        for line in lines:
            if f"rank {victim}" not in line:
                self.faults.append(
                    f"rank {victim} was killed, and a survivor said: {line.strip() or 'nothing'}"
                )
        knew = [float(line.split()[1]) for line in lines if line.startswith("knew")]
        return max(knew) - killed if knew else PATIENCE

    def launcher_time(self, variables, options):
        """Returns the seconds until dabkerun had ended."""
        victim = self.random.randrange(self.ranks)
        command = [str(self.launcher), "-np", str(self.ranks), *self.command(options, victim)]
        job = subprocess.Popen(
            command,
            env=dict(os.environ, **variables),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pids = {}
        while len(pids) < self.ranks:
            line = job.stdout.readline()
            if not line:
                sys.exit(f"'{' '.join(command)}' ended before a rank was killed:\n{job.stderr.read()}")
            said = re.search(r"\[(\d+)\].*ready (\d+)", line)
            if said:
                pids[int(said[1])] = int(said[2])
        self.dawdle()
        killed = time.monotonic()
        os.kill(pids[victim], signal.SIGKILL)
        try:
            _, said = job.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            job.kill()
            self.faults.append(f"'{' '.join(command)}' hung after the kill of rank {victim}")
            return PATIENCE
        took = time.monotonic() - killed
        if job.returncode != 128 + signal.SIGKILL or f"first failure: rank {victim} on" not in said:
            self.faults.append(
                f"rank {victim} was killed, and dabkerun ended with {job.returncode}: {said.strip()}"
            )
        return took

    def row(self, name):
        variables, options = ROWS[name]
        knew = [self.survivors(variables, options) for _ in range(self.kills)]
        ended = [self.launcher_time(variables, options) for _ in range(self.kills)]
        for what, times, promised in (
            ("the survivors knew", knew, PROMISED_TO_SURVIVORS),
            ("dabkerun ended", ended, PROMISED_OF_DABKERUN),
        ):
            if max(times) > promised:
                self.faults.append(
                    f"{name}: {what} after {max(times):.2f} s, and {promised:g} s are promised"
                )
        print(
            f"| {name} | {statistics.median(knew):.3f} | {max(knew):.3f} | {statistics.median(ended):.3f} "
            f"| {max(ended):.3f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-np", type=positive, default=3, dest="ranks", help="ranks of each job (default 3)")
    parser.add_argument("--kills", type=positive, default=50, help="kills of each kind in a row (default 50)")
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build", help="the build folder (default build)"
    )
    parser.add_argument("--only", choices=ROWS, help="this row alone")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    print(
        f"kill -9 of one of {bench.ranks} ranks, {bench.kills} times. Promised: survivors know within "
        f"{PROMISED_TO_SURVIVORS:g} s, dabkerun has ended within {PROMISED_OF_DABKERUN:g} s.\n"
    )
    print("| what runs | survivors know, median s | worst | dabkerun has ended, median s | worst |")
    print("|---|---|---|---|---|")
    for name in [arguments.only] if arguments.only else ROWS:
        bench.row(name)
    print(f"\n{'Every promise held.' if not bench.faults else 'NOT HELD:'}")
    for fault in bench.faults:
        print(f"  {fault}")
    sys.exit(1 if bench.faults else 0)


if __name__ == "__main__":
    main()
