#!/usr/bin/env python3
"""Measures how fast an elastic job goes on when a rank or a host is lost.

  benchmarks/elastic.py                             # all rows, medians of 30 rounds
  benchmarks/elastic.py --only one-host --rounds 100
  PYTHONPATH=build/bindings/python benchmarks/elastic.py --only commit

rows:
  one-host   4 ranks on one host, one is killed
  16-ranks   4 hosts of 4 ranks, one rank is killed
  clients    1,024 clients of the store that dabkerun serves come to a meeting
  no-host    4 hosts of 4 ranks, one host vanishes: its link and all its processes are silent
  spare      4 ranks and a spare on one host, one rank is killed
  state      100 MB go from three ranks to a new one, whose host has a link of 1 Gbit/s
  commit     a commit without its copy, when nothing has changed

Each round of a kill is a job of its own. Hosts are network namespaces, which need root. The last two rows
need NumPy and the package dabke in PYTHONPATH. Ends with code 1 if a row could not be measured.
"""

import argparse
import contextlib
import os
import pathlib
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

from arguments import positive

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "multiproc" / "hosts"))
import namespaces  # noqa: E402

PATIENCE = 60.0  # seconds; whatever takes longer hangs
PEER_TIMEOUT = 5.0  # of an elastic job
OUTPUT = re.compile(r"\[[^\]]*\]<stdout>:\s?(.*)")
EPOCH = re.compile(r"epoch (\d+) rank (\d+) of (\d+) worker (\d+) at ([\d.]+)")
STEP = re.compile(r"step (\d+) rank (\d+) at ([\d.]+)")
ERROR = re.compile(r"error (\d+) rank (\d+) at ([\d.]+)")


class Failure(Exception):
    """A round that has no figure."""


class Job:
    """A job of dabkerun, as a context. Its processes are gone when the context ends."""

    def __init__(self, command, environment=None):
        self.command = [str(word) for word in command]
        self.token = f"elastic-bench-{uuid.uuid4().hex}"
        self.environment = dict(os.environ, ELASTIC_BENCH=self.token, **(environment or {}))
        self.lines = []

    def __enter__(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.dumps = tempfile.TemporaryDirectory(prefix="elastic-bench-")
        self.process = subprocess.Popen(
            self.command,
            env=dict(self.environment, DABKE_DUMP_DIR=self.dumps.name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.rest = b""
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        for pids in self.processes().values():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.dumps.cleanup()

    def fail(self, what):
        self.errors.seek(0)
        raise Failure(f"{what}: {' '.join(self.command)}\n{self.errors.read()}" + "\n".join(self.lines[-20:]))

    def read(self, until):
        """Reads lines until the condition on all lines holds. At the end of the output it must hold."""
        deadline = time.monotonic() + PATIENCE
        while not until(self.lines):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self.fail(f"not done after {PATIENCE:g} s")
            got = os.read(self.process.stdout.fileno(), 1 << 16)
            if not got:
                self.fail("the job ended early")
            *whole, self.rest = (self.rest + got).split(b"\n")
            found = (OUTPUT.fullmatch(line.decode(errors="replace")) for line in whole)
            self.lines += [each[1] for each in found if each]

    def finish(self):
        """Waits until the job has ended well."""
        try:
            rest, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail(f"did not end within {PATIENCE:g} s")
        found = (OUTPUT.fullmatch(line) for line in (self.rest + rest).decode(errors="replace").split("\n"))
        self.lines += [each[1] for each in found if each]
        if self.process.returncode != 0:
            self.fail(f"ended with code {self.process.returncode}")

    def processes(self):
        """The process ids of the job by worker number. -1: its other processes."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if self.token.encode() not in environment:
                continue
            variables = dict(each.split(b"=", 1) for each in environment.split(b"\0") if b"=" in each)
            worker = int(variables.get(b"DABKE_ELASTIC_WORKER", b"-1"))
            found.setdefault(worker, []).append(int(entry.name))
        return found

    def events(self, pattern, epoch):
        """The matches of the epoch, in the order of the lines."""
        found = [pattern.match(line) for line in self.lines]
        return [each for each in found if each and int(each[1]) == epoch]


def times_of(matches, count, what):
    """The times at the ends of `count` matches."""
    if len(matches) != count:
        raise Failure(f"{len(matches)} of {count} ranks {what}")
    return [float(each[each.re.groups]) for each in matches]


class Network:
    """Four hosts, and the command by which dabkerun reaches them."""

    HOSTS = 4

    def __init__(self, stack):
        self.hosts = stack.enter_context(namespaces.Hosts(self.HOSTS))
        self.shell = pathlib.Path(self.hosts.place) / "shell"
        self.shell.write_text(
            "#!/bin/sh\n"
            f'exec ip netns exec "{self.hosts.name_of("")}${{1#host}}" \\\n'
            "  unshare --uts --pid --fork --kill-child --mount-proc \\\n"
            '  sh -c \'hostname "$0"; exec sh -c "$1"\' "$1" "$2"\n'
        )
        self.shell.chmod(0o755)

    def flags(self, slots):
        names = ",".join(f"host{i}:{slots}" for i in range(self.HOSTS))
        return ["-H", names, "--remote-shell", self.shell]

    def set_link(self, host, state):
        self._run("ip", "-n", self.hosts.switch, "link", "set", f"port{host}", state)

    def limit(self, host, mbit):
        """Limits both directions of the host's link."""
        limit = ("root", "tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "20ms")
        self._run("tc", "-n", self.hosts.switch, "qdisc", "replace", "dev", f"port{host}", *limit)
        self._run("tc", "-n", self.hosts.name_of(host), "qdisc", "replace", "dev", "eth0", *limit)

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")


class Bench:
    def __init__(self, arguments, stack):
        self.arguments, self.stack = arguments, stack
        build = arguments.build.resolve()
        self.launcher = build / "launcher/dabkerun"
        self.worker = build / "benchmarks/elastic/elastic_worker"
        self.meeting = build / "benchmarks/elastic/elastic_meeting"
        for program in (self.launcher, self.worker, self.meeting):
            if not program.exists():
                sys.exit(
                    f"'{program}' is not there: build it with `meson compile -C {arguments.build}`, "
                    "or name the build by --build"
                )
        self.random = random.Random(1)
        self._network = None

    @property
    def network(self):
        if self._network is None:
            self._network = Network(self.stack)
        return self._network

    def rounds(self, trial):
        """Returns the columns of the results of all rounds."""
        return list(zip(*(trial() for _ in range(self.arguments.rounds))))

    def start(self, ranks, flags, steps=20):
        command = [self.launcher, "-np", ranks, "--min-np", "1", *flags, self.worker, "--steps", steps]
        return Job(command)

    def begin(self, job, ranks):
        """Waits until all ranks train, and until a random moment after that."""
        job.read(lambda lines: sum(bool(STEP.match(line)) for line in lines) >= ranks)
        time.sleep(0.05 + self.random.random() * 0.1)

    def kill(self, ranks, flags, size_after):
        """Kills one of the ranks. Returns the seconds from there to the last survivor's error, from there
        until all are in the next epoch, and from the kill to the first step of all."""
        with self.start(ranks, flags) as job:
            self.begin(job, ranks)
            victim = self.random.choice(job.events(EPOCH, 1))
            pid = min(job.processes()[int(victim[4])])
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            job.finish()
            knew = max(times_of(job.events(ERROR, 1), ranks - 1, "had an error"))
            came = max(times_of(job.events(EPOCH, 2), size_after, "came to the next epoch"))
            went_on = max(times_of(job.events(STEP, 2), size_after, "have done a step"))
            return knew - killed, came - knew, went_on - killed, came - killed

    def lose_host(self, slots):
        """Makes a host silent. Returns the seconds until all others are in the next epoch."""
        network, ranks = self.network, Network.HOSTS * slots
        lost = self.random.randrange(Network.HOSTS)
        staying = ranks - slots
        with self.start(ranks, network.flags(slots)) as job:
            self.begin(job, ranks)
            try:
                frozen = self._processes_in(job, lost)
                vanished = time.monotonic()
                network.set_link(lost, "down")
                for pid in frozen:
                    os.kill(pid, signal.SIGSTOP)
                job.finish()
            finally:
                network.set_link(lost, "up")
            came = max(times_of(job.events(EPOCH, 2), staying, "came to the next epoch"))
            return (came - vanished,)

    def _processes_in(self, job, host):
        """The processes of the job whose network is the host's, but not the one that plays ssh."""
        place = os.stat(f"/run/netns/{self.network.hosts.name_of(host)}").st_ino
        found = []
        for pid in (pid for pids in job.processes().values() for pid in pids):
            with contextlib.suppress(OSError):
                is_there = os.stat(f"/proc/{pid}/ns/net").st_ino == place
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if is_there and words[0] != b"unshare":
                    found.append(pid)
        return found

    # ---- the rows: each returns what, the values, the target and the unit ----

    def one_host(self):
        knew, came, went_on, _ = self.rounds(lambda: self.kill(4, [], 3))
        return [
            ("4 ranks, one host: from the kill to the error of the last survivor", knew, 0.1, "s"),
            ("from there until all are in the next epoch", came, 0.05, "s"),
            ("from the kill until all have done a step", went_on, 0.3, "s"),
        ]

    def sixteen_ranks(self):
        flags = self.network.flags(4)
        knew, came, went_on, _ = self.rounds(lambda: self.kill(16, flags, 15))
        return [
            ("16 ranks, 4 hosts: from the kill to the error of the last survivor", knew, 0.1, "s"),
            ("from there until all are in the next epoch", came, 0.3, "s"),
            ("from the kill until all have done a step", went_on, None, "s"),
        ]

    def clients(self):
        done = subprocess.run(
            [self.meeting, "--meetings", str(self.arguments.rounds)], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise Failure(f"{self.meeting}: {done.stderr}")
        return [("1,024 clients of the store meet", [float(line) for line in done.stdout.split()], 1.0, "s")]

    def no_host(self):
        (came,) = self.rounds(lambda: self.lose_host(4))
        return [
            ("4 of 16 ranks: from the loss of their host to the next epoch", came, PEER_TIMEOUT + 0.3, "s")
        ]

    def spare(self):
        *_, came = self.rounds(lambda: self.kill(4, ["--max-np", "4", "--spares", "1"], 4))
        return [("4 ranks and a spare: from the kill until 4 are in the next epoch", came, 0.5, "s")]

    def state(self):
        network, rounds = self.network, self.arguments.rounds
        host = Network.HOSTS - 1
        network.limit(host, self.arguments.mbit)
        flags = [*network.flags(1), "--blacklist-cooldown-range", "0.1", "0.1"]
        program = [sys.executable, ROOT / "benchmarks/python/elastic_state.py", "sync"]
        program += ["--rounds", rounds, "--host", f"host{host}"]
        with Job([self.launcher, "-np", 4, "--min-np", 3, *flags, *program]) as job:
            wanted = re.compile(r"sync ([\d.]+) copy ([\d.]+) holders 3 whole")
            while True:
                seen = len(job.lines)
                done = [wanted.fullmatch(line) for line in job.lines if line.startswith("sync")]
                if len(done) >= rounds:
                    break
                job.read(lambda lines: len(lines) > seen)
            job.finish()
        if not all(done):
            raise Failure("a state was not whole, or had not three holders:\n" + "\n".join(job.lines))
        link = self.arguments.mbit * 1e6 / 8
        parts = [100e6 / link / float(each[1]) for each in done]
        copies = [float(each[2]) for each in done]
        return [
            (f"100 MB to a new rank: part of its link of {self.arguments.mbit} Mbit/s", parts, 0.8, ""),
            ("from there until they are copied to the attributes", copies, None, "s"),
        ]

    def commit(self):
        program = [sys.executable, ROOT / "benchmarks/python/elastic_state.py", "commit"]
        with Job(
            [self.launcher, "-np", 2, "--min-np", 1, *program, "--rounds", self.arguments.rounds]
        ) as job:
            job.finish()
        costs = [float(line.split()[2]) for line in job.lines if line.startswith("commit")]
        if len(costs) != 2 * self.arguments.rounds:
            job.fail(f"{len(costs)} results of {2 * self.arguments.rounds}")
        return [("a commit without its copy, in Python", costs, 5.0, "us")]


ROWS = {
    "one-host": Bench.one_host,
    "16-ranks": Bench.sixteen_ranks,
    "clients": Bench.clients,
    "no-host": Bench.no_host,
    "spare": Bench.spare,
    "state": Bench.state,
    "commit": Bench.commit,
}


def figure(value, unit):
    if unit == "s":
        return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:.2f} {unit}".rstrip()


def line_of(what, values, target, unit):
    quarters = statistics.quantiles(values, n=4) if len(values) > 1 else list(values) * 3
    middle = statistics.median(values)
    is_share = unit == ""
    met = "" if target is None else "yes" if (middle >= target if is_share else middle <= target) else "NO"
    limit = "" if target is None else f"{'at least' if is_share else 'at most'} {figure(target, unit)}"
    worst = min(values) if is_share else max(values)
    return (
        f"| {what} | {figure(middle, unit)} | {figure(quarters[0], unit)} to {figure(quarters[2], unit)} "
        f"| {figure(worst, unit)} | {limit} | {met} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, default=30, help="rounds of each row (default 30)")
    parser.add_argument("--only", choices=ROWS, action="append", help="this row alone; may be repeated")
    parser.add_argument("--mbit", type=positive, default=1000, help="the link of `state` (default 1000)")
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build", help="the build folder (default build)"
    )
    arguments = parser.parse_args()
    failures, lines = [], []
    with contextlib.ExitStack() as stack:
        bench = Bench(arguments, stack)
        for name in arguments.only or ROWS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                lines += [line_of(*row) for row in ROWS[name](bench)]
            except (Failure, namespaces.NotPermitted) as why:
                failures.append(f"{name}: {why}")
    print(f"Medians of {arguments.rounds} rounds.\n")
    print("| what | median | quartiles | worst | target | met |")
    print("|---|---|---|---|---|---|")
    print("\n".join(lines))
    for failure in failures:
        print(f"\nnot measured: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
