"""One job of real processes: started, watched until it has ended or exceeded its time, and cleaned up."""

import collections
import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import plan as plans

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "multiproc/hosts"))
import namespaces  # noqa: E402 (pylint: disable=wrong-import-position)

LIMIT_SECONDS = 90
PATIENCE_SECONDS = 20  # the time without progress after which a rank reports itself as hung
PEER_TIMEOUT_SECONDS = 2
START_TIMEOUT_SECONDS = 10
# The time that the last parts of a job take to end: the process that strikes, a launcher's children.
LINGER_SECONDS = 9
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


FAKETIME = "/usr/$LIB/faketime/libfaketimeMT.so.1"  # the dynamic loader expands $LIB


def remove_group(group):
    """Removes a control group, whose last processes may still be ending."""
    deadline = time.monotonic() + LINGER_SECONDS
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def remove_clocks(journal):
    """Removes the files that libfaketime leaves behind for a killed process."""
    for _, _, text in journal:
        word, _, pid = text.partition(" ")
        if word == "begun":
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                pathlib.Path("/dev/shm", name).unlink(missing_ok=True)


@dataclass
class Outcome:
    codes: list  # of the started processes (ranks, or one launcher); None: it had to be killed
    said: str  # all output of the processes
    journal: list  # (seconds, rank, text)
    began: float
    ended: dict = field(default_factory=dict)  # {index of the process in codes: time of its end}
    seconds: float = 0
    machine_stood_still: float = 0  # the longest time in which no process of the job ran
    left: list = field(default_factory=list)  # processes and files that were not cleaned up


class Stillness:
    """Measures how long a busy machine lets a thread wait that is ready to run."""

    def __enter__(self):
        self.longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        step = 0.01
        while True:
            before = time.monotonic()
            if self._ended.wait(step):
                return
            self.longest = max(self.longest, time.monotonic() - before - step)


def processes_with(word):
    """The (pid, command line) of each process with `word` in its environment. Only a job's processes have its
    folder there."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if word.encode() in (entry / "environ").read_bytes():
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if line:  # otherwise it is a zombie
                    found.append((int(entry.name), line.strip()))
        except OSError:
            pass
    return found


class Job:
    def __init__(self, plan, build, worker_command, python_build):
        """Takes `worker_command` without the program."""
        self.plan = plan
        self.hand = str(build / "tests" / "storm" / "storm_worker")
        self.worker_command = [*worker_command, str(plan.program)]
        self.python_build = python_build
        self.dabkerun = str(build / "launcher" / "dabkerun")

    def run(self, stopped):
        """Runs the job. `stopped` is an Event that ends it early."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="dabke-fault-"))
        try:
            for name in ("tmp", "first", "again"):
                (folder / name).mkdir()
            return self._run(folder, stopped)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def environment(self, folder):
        plan = self.plan
        dead = sorted({fault.rank for fault in plan.faults if fault.effect == plans.DEATH})
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("STORM_", "DABKE_", "HOROVOD_"))
        }
        own = {
            "STORM_JOURNAL": str(folder / "journal"),
            "STORM_STEADY": str(plan.steady),
            "STORM_FAULTS": plan.lines,
            "STORM_DEAD": ",".join(map(str, dead)),
            "STORM_PATIENCE": str(PATIENCE_SECONDS),
            "DABKE_PEER_TIMEOUT_SECONDS": str(PEER_TIMEOUT_SECONDS),
            "DABKE_START_TIMEOUT_SECONDS": str(START_TIMEOUT_SECONDS),
            "TMPDIR": str(folder / "tmp"),
        }
        if plan.devices:
            own["STORM_DEVICES"] = "1"
        if plan.messages:
            own["STORM_MESSAGES"] = "1"
        if plan.forbids_reads:
            own["STORM_FORBID_READS"] = "1"
        if plan.python:
            own |= {"STORM_WORKER": self.hand, "PYTHONPATH": str(self.python_build / "bindings" / "python")}
        if plan.start == "processes":
            own["DABKE_RENDEZVOUS"] = f"file:{folder}/first"
        if plan.start in ("processes", "hosts"):
            # A rank that still lacks something, or is cut off, makes no other job with the remaining ranks.
            if all(fault.effect in (plans.NOTHING, plans.DEATH) for fault in plan.faults):
                own["STORM_AGAIN"] = f"file:{folder}/again"
        if plan.start == "openmpi":
            own |= {**MPI_ENVIRONMENT, "OMPI_MCA_orte_tmpdir_base": str(folder / "tmp")}
        return {**kept, **own}

    def _limits(self, folder, stack):
        """Makes the limits that the faults need, and removes them with the stack. Returns the variables that
        name them."""
        told = {}
        kinds = {fault.kind for fault in self.plan.faults}
        name = f"dabke-fault-{os.getpid()}-{self.plan.seed}"
        for kind, variable, controller in (
            ("memory limit", "STORM_MEMORY", "memory"),
            ("thread limit", "STORM_PIDS", "pids"),
        ):
            if kind in kinds:
                group = pathlib.Path("/sys/fs/cgroup") / controller / name
                try:
                    group.mkdir()
                except OSError as error:
                    raise namespaces.NotPermitted(f"{group}: {error}") from error
                stack.callback(remove_group, group)
                told[variable] = str(group)
        if "full disk" in kinds:
            disk = folder / "disk"
            disk.mkdir()
            if (
                subprocess.run(
                    ["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True
                ).returncode
                != 0
            ):
                raise namespaces.NotPermitted("mount")
            stack.callback(subprocess.run, ["umount", "-l", disk], check=True)
            told |= {"DABKE_TIMELINE": f"{disk}/timeline.json", "STORM_WITHOUT": "traces"}
        if "clock step" in kinds:
            if shutil.which("faketime") is None:
                raise namespaces.NotPermitted("faketime is not installed")
            (folder / "clock").write_text("+0\n", encoding="utf-8")
            told["FAKETIME_TIMESTAMP_FILE"] = str(folder / "clock")
        return told

    def commands(self):
        """A list of (command, additional environment) of the processes to start on this host."""
        plan, worker = self.plan, self.worker_command
        if plan.start == "processes":
            return [
                (worker, {"DABKE_RANK": str(rank), "DABKE_SIZE": str(plan.ranks), **self.clock_of(rank)})
                for rank in range(plan.ranks)
            ]
        if plan.start == "dabkerun":
            return [([self.dabkerun, "-np", str(plan.ranks), *worker], {})]
        more = ["--oversubscribe"] if plan.start == "openmpi" else []
        return [([f"mpirun.{plan.start}", *more, "-np", str(plan.ranks), *worker], {})]

    def clock_of(self, rank):
        """Variables that give a rank its own clock, if a fault steps that clock. The steady clock of a
        machine does not step."""
        if not any(fault.kind == "clock step" and fault.rank == rank for fault in self.plan.faults):
            return {}
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def _run(self, folder, stopped):
        environment = self.environment(folder)
        with contextlib.ExitStack() as stack:
            environment |= self._limits(folder, stack)
            start = functools.partial(self._start, self.commands())
            if self.plan.places:
                name = f"dabke{os.getpid()}f{self.plan.seed}"
                hosts = stack.enter_context(
                    namespaces.Hosts(max(self.plan.places) + 1, name, self.plan.wires)
                )
                environment["STORM_SWITCH"] = hosts.switch
                start = functools.partial(
                    self._start_by_agents if self.plan.start == "agents" else self._start_on_hosts, hosts
                )
            stillness = stack.enter_context(Stillness())
            began = time.monotonic()
            started, output = start(folder, environment)
            codes, ended = self._wait(started, began + LIMIT_SECONDS, stopped)
            seconds = time.monotonic() - began
            left = self._clear(folder, environment["STORM_JOURNAL"])
            journal = journal_of(folder / "journal")
            remove_clocks(journal)
            said = "\n".join(
                pathlib.Path(path).read_text(encoding="utf-8", errors="replace") for path in output
            )
        return Outcome(codes, said, journal, began, ended, seconds, stillness.longest, left)

    @staticmethod
    def _start(commands, folder, environment):
        """Starts the commands. Returns (processes, files with their output)."""
        with open(folder / "said", "wb") as said:
            return [
                subprocess.Popen(
                    command,
                    env={**environment, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                for command, more in commands
            ], [folder / "said"]

    def _start_by_agents(self, hosts, folder, environment):
        """Starts dabkerun with agents on the hosts, which are named after their namespaces."""
        shell = folder / "shell"
        shell.write_text('#!/bin/sh\nexec ip netns exec "$1" sh -c "$2"\n', encoding="ascii")
        shell.chmod(0o755)
        slots = collections.Counter(map(hosts.name_of, self.plan.places))
        command = [
            self.dabkerun,
            "-H",
            ",".join(f"{host}:{count}" for host, count in slots.items()),
            "--remote-shell",
            str(shell),
            *self.worker_command,
        ]
        return self._start([(command, {})], folder, environment)

    def _start_on_hosts(self, hosts, _, environment):
        # All ranks share process ids: as the first process of a namespace of its own, a rank could not be
        # killed from inside.
        started = hosts.start(self.plan.places, self.worker_command, environment, one_pid_namespace=True)
        return started, [rank.output_file for rank in started]

    @staticmethod
    def _wait(started, deadline, stopped):
        """Returns (exit codes, the time of each end)."""
        ended = {}
        while len(ended) < len(started):
            for number, process in enumerate(started):
                if number not in ended and process.poll() is not None:
                    ended[number] = time.monotonic()
            if time.monotonic() > deadline or stopped.wait(0.01):
                break
        codes = [process.poll() for process in started]
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return codes, ended

    @staticmethod
    def _clear(folder, mark):
        deadline = time.monotonic() + LINGER_SECONDS
        while (left := processes_with(mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return [f"process {pid}: {line}" for pid, line in left] + sorted(
            str(path.relative_to(folder))
            for path in (folder / "tmp").rglob("*")
            if not path.is_dir() and not path.parent.name.startswith("dabke-storm.")
        )  # the program's own output


def journal_of(path):
    lines = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            words = line.split(" ", 2)
            if len(words) == 3:
                lines.append((int(words[0]) * 1e-6, int(words[1]), words[2]))
    return sorted(lines)
