#!/usr/bin/env python3
"""The wrapper of each test in `meson test --wrapper`: a Catch2 program writes its XML report beside the log.

Any other program runs as it is. The wrapper prints the CPU time of each program and ends as the program
ended.
"""

import hashlib
import mmap
import os
import resource
import signal
import subprocess
import sys

# Catch2's answer to --libidentify. The wrapper searches the program's file for it instead of running the
# program.
MARK = b"A Catch2 test executable"

MOST_DETAILS = 60  # the most lines about failed checks that are printed


def is_catch2(path):
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(MARK) >= 0
    except OSError:
        return False


def run_passing_signals_on(command):
    """Runs the command and forwards signals. An early signal waits until the program has started, so that the
    program does not outlive this process."""
    program, early = None, []

    def pass_on(received, _):
        if program:
            program.send_signal(received)
        else:
            early.append(received)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    program = subprocess.Popen(command)
    for received in early:
        program.send_signal(received)
    return program.wait()


def end_as(returncode):
    if returncode < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -returncode not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    sys.exit(returncode)


def run_measured(command):
    """Returns the command's exit code. Prints the CPU time of the command and of the processes it waited for,
    for run.py."""
    returncode = run_passing_signals_on(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"cpu seconds: {used.ru_utime + used.ru_stime:.2f}", flush=True)
    return returncode


def main():
    command = sys.argv[1:]
    folder = os.environ.get("DABKE_TEST_REPORTS")
    if not folder or not is_catch2(command[0]):
        end_as(run_measured(command))
    # Several tests may be one program with different arguments or environments.
    key = hashlib.sha256(
        "\0".join([*command, *(f"{k}={v}" for k, v in sorted(os.environ.items()))]).encode()
    ).hexdigest()
    report = os.path.join(folder, f"{os.path.basename(command[0])}-{key[:16]}.xml")
    print(f"catch2 report: {report}", flush=True)
    returncode = run_measured([*command, "--reporter", "xml", "--out", report, "--durations", "yes"])
    if returncode != 0:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from run import read_catch_report

        details = [line for lines in read_catch_report(report).details.values() for line in lines]
        print(*details[:MOST_DETAILS], sep="\n")
        if len(details) > MOST_DETAILS:
            print(f"... and {len(details) - MOST_DETAILS} lines more in {report}")
        sys.stdout.flush()
    end_as(returncode)


if __name__ == "__main__":
    main()
