#!/usr/bin/env python3
"""Trains one of the examples with several numbers of ranks, and prints a table of times and speedups.

    python examples/scaling.py --example keras --np 1 2 4 8
    python examples/scaling.py --example pytorch --epochs 12 --batch-size 64

Each row is one job under dabkerun. Options that this program does not have go to the example. The columns:

    total s      from the start of dabkerun until its end: imports, compilation and training
    epoch s      the mean of all epochs after the first one, which compiles
    speedup      the time of the first row, divided by this row's
    efficiency   the epochs' speedup, divided by that of the number of ranks
    accuracy     of held-out images, after the last epoch
    batches      how often rank 0 communicated, with `MiB` in all, for `comm s` seconds
    % of job     `comm s` in percent of the time from init to shutdown
    late rank    the rank that the others waited for longest, and how long

The last five columns are read from Dabke's profile, which dabkerun --profile prints. The number of images in
an epoch is the same in each row, so an epoch of more ranks has fewer steps, of a larger joined batch.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = ("jax", "keras", "pytorch", "pytorch_ddp", "tensorflow")
CORES = len(os.sched_getaffinity(0))
# One thread for each rank: one rank alone would otherwise use the cores of several.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
HEAD = (
    "ranks  total s  speedup  epoch s  speedup  efficiency  accuracy"
    " | batches   MiB comm s % of job late rank"
)


def flags():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    ranks = [each for each in (1, 2, 4, 8) if each <= max(2, CORES)]
    parser.add_argument("--example", choices=EXAMPLES, default="keras", help="default: keras")
    parser.add_argument(
        "--np", type=int, nargs="+", default=ranks, metavar="RANKS", help="default: up to 8, within the cores"
    )
    parser.add_argument("--epochs", type=int, default=6, help="default: 6")
    parser.add_argument("--dabkerun", default="dabkerun", help="the launcher (default: dabkerun)")
    parser.add_argument("--profiles", action="store_true", help="also print the whole profile of each job")
    options, more = parser.parse_known_args()
    if shutil.which(options.dabkerun) is None:
        parser.error(f"{options.dabkerun} is not an executable file; install Dabke, or use --dabkerun")
    if "--checkpoint" in more:
        parser.error("--checkpoint would let each job continue the one before it")
    return options, more


class Job:
    """A job that has ended: what its rank 0 printed, and when."""

    def __init__(self, command):
        begin = time.perf_counter()
        self.output, self.lines, epochs = [], [], []
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**ONE_THREAD, **os.environ},
        ) as process:
            for line in process.stdout:
                self.output.append(line)
                of_rank_0 = re.match(r"\[0\]<std(?:out|err)>:(.*)", line)
                if of_rank_0:
                    self.lines.append(of_rank_0[1])
                    if re.match(r"epoch +\d+", of_rank_0[1]):
                        epochs.append(time.perf_counter())
        self.status = process.returncode
        self.seconds = time.perf_counter() - begin
        self.epoch_seconds = (epochs[-1] - epochs[0]) / (len(epochs) - 1) if len(epochs) > 1 else None

    def accuracy(self):
        found = re.findall(r"accuracy ([\d.]+) %", "\n".join(self.lines))
        return f"{found[-1]} %" if found else "-"

    def profile(self):
        """Returns the lines of Dabke's profile. Its first two lines are heads."""
        starts = [at for at, line in enumerate(self.lines) if line.startswith("dabke profile of rank 0")]
        return self.lines[starts[-1] :] if starts else []


def communication(profile):
    """Returns the table's columns about communication: the sums over all collectives."""
    batches, size, seconds, late = 0, 0, 0.0, "-"
    for line in profile[2:]:
        fields = line.split()
        if fields[:2] == ["kept", "waiting:"]:  # the longest wait is the first one
            late = f"{fields[3].rstrip(':')} ({float(fields[-4]):.2f} s)"
        elif len(fields) > 9 and fields[2].isdigit():
            batches += int(fields[2])
            size += int(fields[2]) * float(fields[4])
            seconds += float(fields[5])
    wall = float(re.search(r"([\d.]+) s from init", profile[0])[1])
    share = 100 * seconds / wall if wall > 0 else 0.0
    return f"{batches:>7} {size / 2**20:>5.1f} {seconds:>6.2f} {share:>8.1f} {late}"


def row(ranks, job, first_ranks, first):
    speedup = efficiency = epoch = "-"
    if job.epoch_seconds and first.epoch_seconds:
        times = first.epoch_seconds / job.epoch_seconds
        epoch, speedup = f"{job.epoch_seconds:.3f}", f"{times:.2f}"
        efficiency = f"{100 * times * first_ranks / ranks:.0f} %"
    return (
        f"{ranks:>5}  {job.seconds:>7.2f}  {first.seconds / job.seconds:>7.2f}  {epoch:>7}  {speedup:>7}"
        f"  {efficiency:>10}  {job.accuracy():>8} | {communication(job.profile())}"
    )


def main():
    options, more = flags()
    script = HERE / f"{options.example}_digits.py"
    example = [sys.executable, str(script), "--epochs", str(options.epochs), *more]
    print(f"{script.name}, {options.epochs} epochs, {CORES} cores\n{HEAD}", flush=True)
    jobs = []
    for ranks in options.np:
        job = Job([options.dabkerun, "-np", str(ranks), "--profile", *example])
        if job.status != 0 or not job.profile():
            sys.stdout.flush()
            sys.stderr.writelines(job.output)
            sys.exit(f"scaling.py: the job with -np {ranks} ended with status {job.status}")
        jobs.append(job)
        print(row(ranks, job, options.np[0], jobs[0]), flush=True)
    if options.profiles:
        for job in jobs:
            print("", *job.profile(), sep="\n")
    if max(options.np) > CORES:
        print(f"Ranks beyond {CORES} share cores, so more of them are not faster on this machine.")


if __name__ == "__main__":
    main()
