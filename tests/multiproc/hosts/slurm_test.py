#!/usr/bin/env python3
"""dabkerun in jobs of a real Slurm, on hosts made of network namespaces (slurm.py).

Usage: slurm_test.py DABKERUN DIGITS EPOCH_WORKER

DIGITS is an empty word if the examples are not built. Exits with 77, which means skipped, where such hosts
are not possible or Slurm is not installed.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import namespaces
import slurm
from job_processes import (
    CLEAN_SECONDS,
    PEER_TIMEOUT,
    Late,
    end_of,
    expect_clean,
    in_time,
    is_pending,
    parent_of,
    processes_with,
    wait_until,
)

DABKERUN = os.path.abspath(sys.argv.pop(1))
DIGITS = (digits := sys.argv.pop(1)) and os.path.abspath(digits)
EPOCH_WORKER = os.path.abspath(sys.argv.pop(1))
TRAINING = [DIGITS, "--epochs", "5"]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Follower:
    """Reads a job's two streams while it runs."""

    def __init__(self, job):
        self.job, self.text, self.lock = job, "", threading.Lock()
        self.readers = [
            threading.Thread(target=self._read, args=(stream,)) for stream in (job.stdout, job.stderr)
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream):
        for line in stream:
            with self.lock:
                self.text += line.decode()

    def wait_for(self, text, seconds=120, after=0):
        """Waits until the output has `text`, behind its first `after` letters."""
        deadline = time.monotonic() + seconds
        while text not in self.text[after:]:
            if time.monotonic() > deadline or self.job.poll() is not None:
                raise AssertionError(f"'{text}' did not come; the job has printed:\n{self.text}")
            time.sleep(0.01)

    def finish(self):
        for reader in self.readers:
            reader.join(120)
        return self.job.wait(120)


class SlurmJobs(unittest.TestCase):
    """Jobs begin on host 0; they run on hosts 1 and 2."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = namespaces.opened(cls, slurm.Cluster(3))

    def run_job(self, words, **options):
        return end_of(self.cluster.start(words, **options))

    def test_a_network_is_trained_on_the_hosts_of_the_allocation(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        for nodes, slots in (
            ("host1,host2", 2),
            ("host0,host1", 4),
        ):  # without the host that starts it, and with it
            with self.subTest(nodes=nodes):
                code, out, error = self.run_job(
                    [DABKERUN, *TRAINING],
                    nodes=nodes,
                    slots=slots,
                    allocation=["--ntasks-per-node", str(slots // 2)],
                )
                self.assertEqual(code, 0, error)
                self.assertRegex(out, r"\[0\]<stdout>:accuracy 9\d\.\d %")
                self.assertRegex(
                    error,
                    rf"^dabkerun: Slurm job \d+: 2 hosts, {slots} slots; srun starts dabkerun on other hosts",
                )

    def test_an_elastic_job_goes_on_without_a_rank_and_without_a_host_which_comes_back(self):
        flags = ["-np", "4", "--min-np", "1", "--blacklist-cooldown-range", "0.3", "600"]
        stop = os.path.join(self.cluster.place, "stop")
        job = self.cluster.start(
            [DABKERUN, *flags, "-x", "TEST_STOP_FILE=" + stop, EPOCH_WORKER, "1000000", "1000"],
            slots=4,
            allocation=["--ntasks-per-node", "2"],
        )
        self.addCleanup(job.kill)
        follower = Follower(job)
        follower.wait_for("[3]<stdout>:epoch 1 rank 3 of 4")
        os.kill(int(re.search(r"slot host2:1 is pid (\d+)", follower.text)[1]), signal.SIGKILL)
        follower.wait_for("[0]<stdout>:epoch 2 rank 0 of 3")
        follower.wait_for("[0]<stdout>:epoch 3 rank 0 of 4")
        # Everything of the host is lost at once, and Slurm's own process there, too.
        ours = processes_with("SLURM_CONF=" + self.cluster.environment()["SLURM_CONF"])
        step = [pid for pid in processes_with("SLURMD_NODENAME=host2") if pid in ours]
        [agent] = [pid for pid in step if name_of(pid) == "dabke-agent"]
        self.assertIn("slurmstepd", name_of(parent_of(agent)))
        lost_at = len(follower.text)
        for pid in [agent, parent_of(agent), *step]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        follower.wait_for(" rank 0 of 2 ", after=lost_at)
        follower.wait_for(" rank 0 of 4 ", after=lost_at)  # the new ranks join together, or one by one
        pathlib.Path(stop).touch()
        code = follower.finish()
        self.assertEqual(code, 0, follower.text)
        self.assertRegex(follower.text[lost_at:], r"dabkerun: epoch \d+: ranks? .*3 \(host host2\) joins?")
        self.assertIn(
            "dabkerun: epoch 2: rank 3 (host host2) was killed by SIGKILL (signal 9) at ", follower.text
        )
        self.assertIn("was lost with the agent of its host at ", follower.text)

    def test_a_discovery_script_lists_the_hosts_of_an_elastic_job_and_may_list_those_of_the_allocation(self):
        with tempfile.TemporaryDirectory() as directory:
            hosts = pathlib.Path(directory) / "hosts"
            hosts.write_text("host2:1\n")
            script = ["--host-discovery-script", f"cat {hosts}"]
            job = self.cluster.start([DABKERUN, "--min-np", "1", *script, EPOCH_WORKER, "1000000", "1000"])
            follower = Follower(job)
            follower.wait_for("[0]<stdout>:epoch 1 rank 0 of 1")
            self.assertNotIn("slot host1:", follower.text)
            (new := hosts.with_suffix(".new")).write_text("host2:1\nhost9:1\nhost1:1\n")
            new.rename(hosts)
            follower.wait_for("[1]<stdout>:epoch 2 rank 1 of 2")
            follower.wait_for("dabkerun: host host9 does not belong to Slurm job ")
            self.assertIn("slot host1:0 is pid ", follower.text)
            job.send_signal(signal.SIGTERM)
            follower.finish()

    def test_a_doctor_examines_the_hosts_of_the_allocation_by_srun(self):
        for _ in range(4):  # a busy machine may make a host late for an examination
            code, out, error = self.run_job([DABKERUN, "doctor", "--json"])
            if code == 0:
                break
        self.assertEqual(code, 0, out + error)
        report = json.loads(out)
        self.assertEqual(
            [(each["host"], each["host_name"], each["is_well"]) for each in report["hosts"]],
            [("host1", "host1", True), ("host2", "host2", True)],
        )
        self.assertEqual(
            [(way["from"], way["to"], way["trouble"]) for way in report["ways"]],
            [("host1", "host2", ""), ("host2", "host1", "")],
        )
        self.assertGreater(
            max(way["bytes_per_s"] for way in report["ways"]), 1_000_000
        )  # the better of the two

    def test_ranks_run_on_their_hosts_with_all_cores_and_nothing_secret_is_on_a_command_line(self):
        script = (
            'hostname; echo "$DABKE_JOB_KEY" | grep -l -a -f - /proc/[0-9]*/cmdline 2>/dev/null; '
            "echo searched; "
            'echo "step ${SLURM_STEP_ID-none} of ${PMI_RANK-none}"; echo "key ${#DABKE_JOB_KEY}"; nproc'
        )
        code, out, error = self.run_job(
            [DABKERUN, "--no-prefix", "--output-filename", self.cluster.place + "/out", "sh", "-c", script],
            environment={"SRUN_CPUS_PER_TASK": "1"},
        )
        self.assertEqual(code, 0, error)
        for rank, host in ((0, 1), (1, 2)):
            with open(f"{self.cluster.place}/out/rank.{rank}/stdout", encoding="ascii") as file:
                self.assertEqual(
                    file.read(), f"host{host}\nsearched\nstep none of none\nkey 64\n{os.cpu_count()}\n"
                )

    def test_rank_0_reads_what_dabkerun_reads(self):
        job = subprocess.Popen(
            self.cluster.on_host(
                0,
                [
                    "salloc",
                    "--quiet",
                    "--nodelist=host1,host2",
                    "--nodes=2",
                    "--ntasks=2",
                    DABKERUN,
                    "--no-prefix",
                    "cat",
                ],
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.cluster.environment(),
        )
        text = b"".join(b"%d %s\n" % (i, b"x" * (i * 37 % 301)) for i in range(10000))
        self.assertTrue(job.communicate(text, timeout=200)[0] == text)
        self.assertEqual(job.returncode, 0)

    def start_sleepers(self, *flags):
        """Starts a job of two ranks that sleep. Returns the job, its mark, the pids of the ranks, and
        dabkerun's pid."""
        job, mark, pids, launcher = self.cluster.start_sleepers(DABKERUN, flags)
        self.addCleanup(job.kill)
        return job, mark, pids, launcher

    @staticmethod
    def first_line(error):
        """The first line of dabkerun after its greeting."""
        return [line for line in error.splitlines() if line.startswith("dabkerun: ")][1]

    def test_whatever_is_killed_the_first_line_says_so_and_nothing_is_left(self):
        cases = {
            "rank": (
                lambda launcher, pids: pids[1],
                r"rank 1 on host host2 \(pid \d+\) was killed by SIGKILL",
                137,
            ),
            "agent": (
                lambda launcher, pids: parent_of(parent_of(pids[1])),
                "host host2: the connection to its agent was lost: the agent's side closed it",
                1,
            ),
            "supervisor": (
                lambda launcher, pids: parent_of(pids[1]),
                r"rank 1 on host host2 \(pid \d+\) was lost",
                137,
            ),
            "srun": (
                lambda launcher, pids: slurm.srun_below(launcher),
                "host host[12]: the connection to its agent was lost: srun was killed by SIGKILL",
                1,
            ),
            "launcher": (lambda launcher, pids: launcher, None, 0),  # salloc ignores it
        }
        for what, (victim, line, code) in cases.items():
            with self.subTest(killed=what):
                in_time(lambda: self.kill(victim, line, code))

    def kill(self, victim, line, code):
        job, mark, pids, launcher = self.start_sleepers()
        begin = time.monotonic()
        os.kill(victim(launcher, pids), signal.SIGKILL)
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, code, error)
        if line:
            self.assertRegex(self.first_line(error), "^dabkerun: " + line)
        expect_clean(mark, begin)

    def test_a_signal_ends_the_job_on_every_host(self):
        in_time(self.interrupt)

    def interrupt(self):
        job, mark, _, launcher = self.start_sleepers()
        begin = time.monotonic()
        os.kill(launcher, signal.SIGINT)
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, 130, error)
        self.assertIn("dabkerun: the job was ended by SIGINT\n", error)
        expect_clean(mark, begin)

    def test_a_signal_to_the_step_or_to_dabkerun_reaches_every_rank_once(self):
        count = (
            'trap "echo got" USR1; trap "echo told; exit 0" TERM; echo "pid $$"; while :; do sleep 0.05; done'
        )
        job, mark, pids, launcher = self.cluster.start_sleepers(DABKERUN, command=count)
        self.addCleanup(job.kill)
        limit = threading.Timer(120, job.kill)  # a lost signal ends the wait for the lines
        limit.start()
        self.addCleanup(limit.cancel)
        with open(f"/proc/{launcher}/environ", encoding="ascii") as file:
            job_id = dict(each.split("=", 1) for each in file.read().split("\0") if each)["SLURM_JOB_ID"]

        def signal_step(name):  # signals all processes of srun's step, as --signal=USR1@60 does
            scancel = self.cluster.on_host(0, ["scancel", f"--signal={name}", job_id])
            subprocess.run(scancel, env=self.cluster.environment(), check=True, timeout=60)

        supervisors = [parent_of(pid) for pid in pids.values()]
        ours = [launcher, *supervisors, *(parent_of(pid) for pid in supervisors)]

        def lines():
            return sorted(job.stdout.readline().decode() for _ in range(2))

        for to_step in (True, False, True, True, False):
            signal_step("USR1") if to_step else os.kill(launcher, signal.SIGUSR1)
            self.assertEqual(lines(), ["[0]<stdout>:got\n", "[1]<stdout>:got\n"])
            # A second signal to a process that has not taken the first would be lost.
            wait_until(
                lambda: not any(is_pending(pid, signal.SIGUSR1) for pid in ours), "all signals taken", 60
            )
            time.sleep(0.2)  # Slurm signals one process after the other
        time.sleep(1.5)  # before the next signal, so that supervisors have sent the signals that they delayed
        begin = time.monotonic()
        signal_step("TERM")
        self.assertEqual(lines(), ["[0]<stdout>:told\n", "[1]<stdout>:told\n"])
        out, error = job.communicate(timeout=200)
        self.assertEqual((job.returncode, out), (0, b""), error)
        expect_clean(mark, begin)

    def test_a_host_that_is_cut_off_is_lost_after_the_peer_timeout_and_cleans_up_itself(self):
        in_time(self.cut_a_host_off)

    def cut_a_host_off(self):
        job, mark, pids, _ = self.start_sleepers("--peer-timeout-seconds", f"{PEER_TIMEOUT}")
        begin = time.monotonic()
        with self.cluster.hosts.cut(0, 2):
            # Slurm waits longer for a host: its own processes there end once the network is whole again.
            wait_until(
                lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()),
                f"the end of both ranks, {pids}",
                10 * CLEAN_SECONDS,
            )
            if time.monotonic() > begin + PEER_TIMEOUT + CLEAN_SECONDS:
                raise Late(f"the ranks have ended only {time.monotonic() - begin:.1f} s after the cut")
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, 1, error)
        self.assertRegex(
            self.first_line(error),
            f"host host2: the connection to its agent was lost: nothing received for {PEER_TIMEOUT} s",
        )
        wait_until(lambda: not processes_with(mark), "the end of every process of the job")

    def test_what_is_wrong_is_said_in_the_first_line_with_what_to_do(self):
        cases = [
            (
                "list",
                ["echo", "x"],
                {"SLURM_JOB_NODELIST": "n[1-"},
                "SLURM_JOB_NODELIST is 'n\\[1-', and .* give the hosts with -H",
                2,
            ),
            (
                "slots",
                ["-np", "3", "echo", "x"],
                {},
                "-np 3 asks for more processes than host1:1,host2:1 has slots",
                2,
            ),
            (
                "host",
                ["--launcher", "slurm", "-H", "other.invalid:1", "echo", "x"],
                {},
                "--launcher slurm: host other.invalid does not belong to Slurm job",
                2,
            ),
            ("program", ["no-such-program"], {}, "host host[12]: cannot run 'no-such-program'", 127),
        ]
        for what, words, changed, line, code in cases:
            with self.subTest(wrong=what):
                change = [f"{name}={value}" for name, value in changed.items()]
                seen, out, error = self.run_job(["env", *change, DABKERUN, *words])
                said = [
                    each
                    for each in error.splitlines()
                    if each.startswith("dabkerun: ") and "starts dabkerun on" not in each
                ]
                self.assertRegex(said[0], "^dabkerun: " + line)
                self.assertEqual((seen, out), (code, ""), error)
        with self.subTest(wrong="step"):  # srun reports the reason
            seen, _, error = self.run_job(
                ["env", "SLURM_JOB_ID=99999", "SLURM_JOBID=99999", DABKERUN, "echo", "x"]
            )
            said = [each for each in error.splitlines() if each.startswith("dabkerun: ")]
            self.assertEqual(
                said[1],
                "dabkerun: Slurm did not start an agent on every host: srun exited with status code 1",
            )
            self.assertIn("dabkerun:   the command was: srun --mpi=none --overlap ", error)
            self.assertEqual(seen, 1, error)

    def test_plain_srun_trains_by_pmi_2_which_is_what_slurm_takes_here(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        code, out, error = end_of(
            self.cluster.start_by_srun(TRAINING, 4, environment={"DABKE_LOG_LEVEL": "info"})
        )
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"accuracy 9\d\.\d %")
        for rank in (0, 2):  # never at the address that both hosts have
            self.assertIn(f"rank {rank} on host{1 + rank // 2}: 10.77.0.{2 + rank // 2} (eth0)\n", error)

    def test_a_task_that_does_not_come_is_no_hang(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        script = f'if [ "$SLURM_PROCID" = 3 ]; then sleep 30; else exec {DIGITS}; fi'
        code, _, error = end_of(
            self.cluster.start_by_srun(
                ["sh", "-c", script], 4, ["--kill-on-bad-exit=1"], {"DABKE_START_TIMEOUT_SECONDS": "3"}
            )
        )
        self.assertNotEqual(code, 0)
        self.assertIn("not all 4 tasks of the Slurm step called dabke_init in time", error)

    def test_outside_of_a_job_slurm_cannot_be_asked_for(self):
        done = subprocess.run(
            self.cluster.on_host(0, [DABKERUN, "--launcher", "slurm", "-np", "1", "echo", "x"]),
            capture_output=True,
            text=True,
            env=self.cluster.environment(),
            timeout=200,
            check=False,
        )
        self.assertEqual(
            (done.returncode, done.stderr),
            (2, "dabkerun: --launcher slurm: not inside a Slurm job: start dabkerun with salloc or sbatch\n"),
        )

    def test_a_dry_run_says_what_srun_would_start(self):
        code, out, error = self.run_job([DABKERUN, "--dry-run", "echo", "x y"])
        self.assertEqual(code, 0, error)
        self.assertRegex(
            out,
            r"^Nothing is started\. The hosts come from Slurm job \d+\.\n"
            r"host host1: 1 slot, rank 0\nhost host2: 1 slot, rank 1\n"
            r"agents of other hosts: srun --mpi=none --overlap .* --nodelist=host1,host2 \S+ --agent --dial\n"
            r"each rank runs: echo 'x y'\n",
        )


class SlurmWithoutPmi(unittest.TestCase):
    """Slurm as it is if its MpiDefault is not set."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = namespaces.opened(cls, slurm.Cluster(3, mpi="none"))

    def test_plain_srun_names_the_remedies_and_they_are_some(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        code, out, error = end_of(self.cluster.start_by_srun(TRAINING, 4))
        self.assertNotEqual(code, 0)
        self.assertNotIn("accuracy", out)
        self.assertRegex(
            error, r"Slurm has started this process as one of 4 .* srun --mpi=pmi2, .* DABKE_RENDEZVOUS=file:"
        )
        meeting = os.path.join(self.cluster.place, "meeting")
        os.mkdir(meeting)
        for flags, environment in ((["--mpi=pmi2"], {}), ([], {"DABKE_RENDEZVOUS": f"file:{meeting}"})):
            with self.subTest(flags=flags, **environment):
                code, out, error = end_of(self.cluster.start_by_srun(TRAINING, 4, flags, environment))
                self.assertEqual(code, 0, error)
                self.assertRegex(out, r"accuracy 9\d\.\d %")

    def test_dabkerun_trains_all_the_same(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        code, out, error = end_of(self.cluster.start([DABKERUN, *TRAINING]))
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"\[0\]<stdout>:accuracy 9\d\.\d %")


if __name__ == "__main__":
    unittest.main()
