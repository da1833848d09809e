#!/usr/bin/env python3
"""Measures a job that only starts and ends: dabkerun beside the mpirun of every installed MPI.

  benchmarks/start_up.py                    # 4 ranks, 15 jobs of each, taking turns
  benchmarks/start_up.py -np 2 --runs 40

Times are of the whole command, from its start to its end. A ratio is the median over the turns.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from arguments import positive

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET_SECONDS = 0.5


def jobs(build, ranks):
    """Returns the commands, by what starts the job. Leaves out MPIs and programs that do not exist."""
    commands = {
        "dabkerun": [build / "launcher/dabkerun", "-np", ranks, build / "benchmarks/start_up/start_up_dabke"]
    }
    for name in ("openmpi", "mpich"):
        mpirun = shutil.which(f"mpirun.{name}")
        program = build / f"benchmarks/start_up/start_up_{name}"
        if mpirun is None or not program.exists():
            print(
                f"{name} is left out: it is not installed, or was not when the build was configured",
                file=sys.stderr,
            )
            continue
        commands[name] = [mpirun, *(["--oversubscribe"] if name == "openmpi" else []), "-np", ranks, program]
    return {name: [str(word) for word in command] for name, command in commands.items()}


def seconds_of(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    begin = time.monotonic()
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    took = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"'{' '.join(command)}' ended with code {done.returncode}:\n{done.stderr}")
    return took


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-np", type=positive, default=4, dest="ranks", help="ranks of each job (default 4)")
    parser.add_argument("--runs", type=positive, default=15, help="jobs of each kind (default 15)")
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build", help="the build folder (default build)"
    )
    arguments = parser.parse_args()
    commands = jobs(arguments.build, arguments.ranks)
    for command in commands.values():
        if not pathlib.Path(command[0]).exists():
            sys.exit(
                f"'{command[0]}' is not there: build it with `meson compile -C {arguments.build}`, "
                "or name the build by --build"
            )
        seconds_of(command)  # everything that the first start reads from disk is read now
    seen = {name: [] for name in commands}
    for _ in range(arguments.runs):
        for name, command in commands.items():
            seen[name].append(seconds_of(command))

    print(f"Start and end of {arguments.ranks} ranks that only initialise, {arguments.runs} jobs of each\n")
    print("| started by | median, s | quartiles | dabkerun / it |")
    print("|---|---|---|---|")
    for name, times in seen.items():
        quarters = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        ratio = statistics.median(ours / theirs for ours, theirs in zip(seen["dabkerun"], times))
        print(
            f"| {name} | {statistics.median(times):.3f} | {quarters[0]:.3f} to {quarters[2]:.3f} "
            f"| {ratio:.2f} |"
        )
    met = statistics.median(seen["dabkerun"]) <= TARGET_SECONDS
    print(
        f"\nTarget for dabkerun: at most {TARGET_SECONDS} s ({'met' if met else 'MISSED'}), "
        "and not slower than Open MPI."
    )


if __name__ == "__main__":
    main()
