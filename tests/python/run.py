#!/usr/bin/env python3
"""Runs the tests of the Python package, and ends with "N passed, N failed, N skipped".

    run.py DABKERUN [--np 2 --np 4] [--only in_job|keras_job|programs]
           [--frameworks none|only|trainers]
           [PYTEST ARGUMENT...]

tests/python/in_job runs in all ranks of a job, once for each --np; a test has passed if it has passed on
every rank. tests/python/keras_job does so for each of Keras's backends that is installed; with other numbers
of ranks than 2, only its tests of training run. tests/python/programs runs outside a job, several files in
parallel; its tests start jobs of their own, with some variants each day (its conftest.py).
"""

import argparse
import datetime
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "counting"))
from counts import with_reason, write_counts  # noqa: E402

# The conftest.py of tests/python writes the outcomes.
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "--no-header",
    "-p",
    "no:cacheprovider",
    "--tb=short",
    f"--confcutdir={HERE}",
]
IN_JOB, KERAS_JOB = [str(HERE / "in_job")], [str(HERE / "keras_job")]
# The frameworks besides PyTorch, whose names are in the names of their tests' files.
FRAMEWORKS = ("tensorflow", "keras", "jax")
ANY_FRAMEWORK = " or ".join(FRAMEWORKS)  # as pytest's -k has it
# The trainers above torch.distributed, in the same way. Their tests are all in programs/.
TRAINERS = ("lightning", "accelerate", "transformers")
ANY_TRAINER = " or ".join(TRAINERS)
DAY = int(os.environ.setdefault("DABKE_TEST_DAY", str(datetime.date.today().toordinal())))
LIMIT_SECONDS = 3600  # of each part; a wheel may have to be compiled
# At least two files run in parallel: each test starts some processes, which wait for one another.
AT_ONCE = ["-n", str(max(2, (os.cpu_count() or 1) // 2)), "--dist", "loadfile"]


def outcome_of(outcomes):
    """The outcome for all ranks, as (outcome, reason). None represents a rank that did not reach the test."""
    kinds = {each and each[0] for each in outcomes}
    if len(kinds) == 1 and None not in kinds:
        return outcomes[0]
    return "failed", "\n".join(
        f"rank {rank}: {': '.join(each) if each else 'did not come so far'}"
        for rank, each in enumerate(outcomes)
    )


def run_limited(command, env):
    """Returns the exit code, or a text if the command took too long."""
    with subprocess.Popen(command, env=env) as process:
        try:
            return process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # dabkerun ends its ranks
            return f"nothing within {LIMIT_SECONDS} s"


def outcomes_in(file):
    """Returns {test: (outcome, reason)} of conftest.py's lines. The last line of a test counts, but a failure
    stays a failure."""
    outcomes = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        test, outcome, why = json.loads(line)
        if outcomes.get(test, ("", ""))[0] != "failed":
            outcomes[test] = outcome, why
    return outcomes


class Counts:
    def __init__(self):
        self.numbers = Counter()
        self.failures = []  # one text per failure

    def add(self, label, outcomes, code):
        numbers = Counter(outcome for outcome, _ in outcomes.values())
        failures = [
            with_reason(f"FAILED [{label}] {test}", why.splitlines())
            for test, (outcome, why) in sorted(outcomes.items())
            if outcome == "failed"
        ]
        if not outcomes or (code not in (0, 1)) or (code == 1 and not failures):
            failures.append(f"FAILED [{label}] pytest ended with {code} after {len(outcomes)} tests")
            numbers["failed"] += 1
        for text in failures:
            print(text)
        self.numbers += numbers
        self.failures += failures

    def as_numbers(self):
        return [self.numbers[each] for each in ("passed", "failed", "skipped")]


def files_of_frameworks():
    """Each rank imports the files that it collects, so it gets no others."""
    files = sorted((HERE / "in_job").glob("test_*.py"))
    return [str(file) for file in files if any(each in file.name for each in FRAMEWORKS)]


def in_job(counts, dabkerun, ranks, arguments, tests=IN_JOB, label="python", more_env=()):
    with tempfile.TemporaryDirectory() as folder:
        code = run_limited(
            [dabkerun, "-np", str(ranks), *PYTEST, *tests, *arguments],
            {**os.environ, "DABKE_TEST_OUTCOMES": folder, **dict(more_env)},
        )
        seen = [outcomes_in(Path(folder) / str(rank)) for rank in range(ranks)]
    tests = {test for each in seen for test in each}
    counts.add(
        f"{label}, {ranks} ranks",
        {test: outcome_of([each.get(test) for each in seen]) for test in tests},
        code,
    )


# The numbers of ranks for each of Keras's backends. Imports of TensorFlow and JAX take seconds.
KERAS_JOBS = {"torch": (1, 2, 4), "jax": (2,), "tensorflow": (2,)}
OF_TRAINING = ["-k", "test_training or test_loss_scale"]


def keras_jobs(counts, dabkerun, arguments):
    if importlib.util.find_spec("keras") is None:
        counts.add("keras", {"keras_job": ("skipped", "")}, 0)
        return
    for backend, numbers in KERAS_JOBS.items():
        if importlib.util.find_spec(backend) is None:
            counts.add(f"keras on {backend}", {"keras_job": ("skipped", "")}, 0)
            continue
        path = os.pathsep.join([str(HERE / "one_backend"), os.environ.get("PYTHONPATH", "")])
        env = {
            "KERAS_BACKEND": backend,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        is_full = os.environ.get("DABKE_TEST_MATRIX") == "full"
        for ranks in KERAS_JOBS["torch"] if is_full else numbers:
            chosen = [] if ranks == 2 or "-k" in arguments else OF_TRAINING
            in_job(counts, dabkerun, ranks, [*chosen, *arguments], KERAS_JOB, f"keras on {backend}", env)


def programs(counts, dabkerun, arguments):
    with tempfile.TemporaryDirectory() as folder:
        code = run_limited(
            [*PYTEST, *AT_ONCE, str(HERE / "programs"), *arguments],
            {**os.environ, "DABKE_TEST_OUTCOMES": folder, "DABKERUN": dabkerun},
        )
        counts.add("python", outcomes_in(Path(folder) / "alone"), code)


def numbers_of_ranks(frameworks):
    """The sizes of jobs. Tests of two ranks show the most. More ranks than cores take long, so each day has
    one more size."""
    if frameworks == "only":
        return (2, 4)
    return (2, 3, 4) if os.environ.get("DABKE_TEST_MATRIX") == "full" else (2, 3 + DAY % 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dabkerun")
    parser.add_argument("--np", type=int, action="append")
    parser.add_argument("--only", choices=("in_job", "keras_job", "programs"))
    parser.add_argument(
        "--frameworks",
        choices=("none", "only", "trainers"),
        help="only PyTorch alone, only TensorFlow, Keras and JAX, or only the trainers above PyTorch",
    )
    parser.add_argument("--counts", type=Path, help="a file for the three numbers")
    options, arguments = parser.parse_known_args()
    # The default handler: a shell that started this in the background has set SIGINT to be ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options.dabkerun = os.path.abspath(options.dabkerun)
    counts = Counts()
    of_frameworks = {
        "none": ["-k", f"not ({ANY_FRAMEWORK} or {ANY_TRAINER})"],
        "only": ["-k", ANY_FRAMEWORK],
        "trainers": ["-k", ANY_TRAINER],
    }.get(options.frameworks, [])
    if options.frameworks == "trainers":
        options.only = "programs"
    if options.only in (None, "in_job"):
        of_job = files_of_frameworks() if options.frameworks == "only" else IN_JOB
        for ranks in options.np or numbers_of_ranks(options.frameworks):
            in_job(counts, options.dabkerun, ranks, [*of_frameworks, *arguments], of_job)
    if options.only in (None, "keras_job") and options.frameworks != "none":
        keras_jobs(counts, options.dabkerun, arguments)
    if options.only in (None, "programs"):
        programs(counts, options.dabkerun, [*of_frameworks, *arguments])
    if options.counts:
        write_counts(options.counts, *counts.as_numbers(), counts.failures)
    print("{} passed, {} failed, {} skipped".format(*counts.as_numbers()))
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
