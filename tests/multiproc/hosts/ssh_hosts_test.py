#!/usr/bin/env python3
"""dabkerun over real ssh, between hosts made of network namespaces, each with an sshd of its own.

Usage: ssh_hosts_test.py DABKERUN DIGITS RANKS

DIGITS is an empty word if the examples are not built. RANKS is the number of ranks on each of the four hosts
of a large job. Exits with 77, which means skipped, where such hosts are not possible.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import namespaces
from job_processes import PEER_TIMEOUT, end_of, expect_clean, in_time, parent_of
from ssh_hosts import PORT, SshHosts, address, ssh_below

# Some jobs start in another directory.
DABKERUN = os.path.abspath(sys.argv.pop(1))
DIGITS = (digits := sys.argv.pop(1)) and os.path.abspath(digits)
RANKS_A_HOST = int(sys.argv.pop(1))


class JobsOverSsh(unittest.TestCase):
    """The launcher is on host 0; hosts 1 and 2 have an sshd."""

    @classmethod
    def setUpClass(cls):
        cls.ssh = namespaces.opened(cls, SshHosts(2))

    def run_job(self, arguments, **options):
        job = self.ssh.start(DABKERUN, arguments, **options)
        out, error = job.communicate(timeout=200)
        return job.returncode, out, error.decode(errors="replace")

    def test_a_network_is_trained_over_two_hosts(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        code, out, error = self.run_job([DIGITS, "--epochs", "2"])
        self.assertEqual(code, 0, error)
        self.assertRegex(out.decode(), r"\[0\]<stdout>:accuracy 9\d\.\d %")

    def test_an_address_that_every_host_has_is_never_chosen(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        code, _, error = self.run_job(
            ["--network-interfaces", "docker0,eth0", "--log-level", "info", DIGITS, "--epochs", "1"]
        )
        self.assertEqual(code, 0, error)
        for rank in (0, 1):
            host = address(rank + 1)
            self.assertIn(f"rank {rank} on {host}: {host} (eth0)\n", error)
            self.assertRegex(error, rf"not 172\.17\.0\.1 \(docker0\): from rank {rank} on {host}: ")

    def test_arguments_and_variables_arrive_as_they_are_whatever_bytes_they_have(self):
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        special = [
            b"",
            b" ",
            b"'",
            b'"',
            b"$HOME",
            b"`id`",
            b"a\nb",
            b"\\",
            b"*",
            "\u00e4\u20ac".encode(),
            b"--",
            b"~",
        ]
        words = special + [
            bytes(draw.randrange(1, 256) for _ in range(draw.randrange(40)))
            for _ in range(200 - len(special))
        ]
        script = (
            "import os, sys; "
            "print(*[os.fsencode(word).hex() or '-' for word in sys.argv[1:] + [os.environ['ODD']]])"
        )
        code, out, error = self.run_job(
            ["--no-prefix", sys.executable, "-c", script, *words], environment={"ODD": "a 'b'\n$c"}
        )
        self.assertEqual(code, 0, error)
        expected = " ".join(word.hex() or "-" for word in words + [b"a 'b'\n$c"]).encode() + b"\n"
        self.assertEqual(out, expected * 2, f"seed {seed}")

    def test_what_travels_is_on_no_command_line_and_ranks_know_their_hosts(self):
        script = (
            'hostname; echo "$DABKE_JOB_KEY" | grep -l -a -f - /proc/[0-9]*/cmdline 2>/dev/null; '
            "echo searched; "
            'echo "in $PWD"; echo "at $DABKE_HOSTNAME $DABKE_RENDEZVOUS"'
        )
        code, out, error = self.run_job(["sh", "-c", script], directory=self.ssh.place)
        self.assertEqual(code, 0, error)
        for rank, host in ((0, 1), (1, 2)):
            self.assertIn(
                f"[{rank}]<stdout>:host{host}\n[{rank}]<stdout>:searched\n",
                "".join(line for line in out.decode().splitlines(True) if line.startswith(f"[{rank}]")),
            )
            self.assertIn(f"[{rank}]<stdout>:in {self.ssh.place}\n", out.decode())
            self.assertRegex(
                out.decode(), rf"\[{rank}\]<stdout>:at {address(host)} http://127\.0\.0\.1:\d+\n"
            )

    def test_the_key_is_in_nothing_that_a_job_says_of_itself(self):
        key_file = self.ssh.file("job_key")
        # The script renames the file because the rank that is killed last may be killed while it writes.
        tell = f'echo "$DABKE_JOB_KEY" >"{key_file}.$DABKE_RANK"; mv "{key_file}.$DABKE_RANK" "{key_file}"'
        for then in (f"exec {DIGITS} --epochs 1" if DIGITS else "true", "kill -9 $$"):
            with self.subTest(then=then):
                words = ["sh", "-c", f"{tell}; {then}"]
                _, out, error = self.run_job(["--verbose", "--log-level", "trace", *words])
                with open(key_file, encoding="ascii") as file:
                    key = file.read().strip()
                self.assertRegex(key, "^[0-9a-f]{64}$")
                self.assertNotIn(key, out.decode(errors="replace") + error)

    def test_dabkerun_listens_on_loopback_alone(self):
        job, _, _ = self.start_sleepers()
        listening = subprocess.run(
            self.ssh.on_host(0, ["ss", "-H", "-l", "-t", "-n", "-p"]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        own = [line for line in listening.splitlines() if f"pid={job.pid}," in line]
        self.assertTrue(own, listening)
        for line in own:
            self.assertRegex(line, r"\s127\.0\.0\.1:\d+\s")
        # dabkerun has started ssh, with exactly this command line.
        with open(f"/proc/{ssh_below(job.pid)}/cmdline", "rb") as file:
            words = file.read().decode().split("\0")[:-1]
        options = [
            "BatchMode=yes",
            "ClearAllForwardings=yes",
            "ControlMaster=no",
            "ControlPath=none",
            "RemoteCommand=none",
        ]
        self.assertEqual(words[:12], ["ssh", "-T", *[word for option in options for word in ("-o", option)]])
        self.assertRegex(words[-2], r"^10\.77\.0\.[23]$")
        self.assertEqual([words[-3], words[-1]], ["--", f"exec {DABKERUN} --agent"])
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=200)

    def test_what_a_login_shell_prints_is_skipped_and_shown_when_no_agent_comes(self):
        with open(self.ssh.shell_start, "w", encoding="ascii") as file:
            file.write("echo 'Welcome to this host!'\nprintf '\\ndabke-agent'\n")
        self.addCleanup(os.remove, self.ssh.shell_start)
        host = f"{address(1)}:1"
        code, out, error = self.run_job(["--no-prefix", "echo", "x"], hosts=host)
        self.assertEqual((code, out, error), (0, b"x\n", ""))
        code, out, error = self.run_job(["--remote-dabkerun", "/nowhere/dabkerun", "echo", "x"], hosts=host)
        self.assertEqual((code, out), (1, b""), error)
        self.assertRegex(error, rf"^dabkerun: host {address(1)}: cannot run /nowhere/dabkerun there")
        self.assertIn("Welcome to this host!", error)

    def test_what_belongs_to_this_login_stays_here_and_x_brings_it_all_the_same(self):
        names = [
            "PLAIN",
            "DISPLAY",
            "XDG_RUNTIME_DIR",
            "SSH_AUTH_SOCK",
            "HOSTNAME",
            "PMI_RANK",
            "SLURM_PROCID",
            "HOME",
        ]
        there = dict.fromkeys(names, "of-dabkerun")
        script = "import os; print(*[n for n in %r if os.environ.get(n) == 'of-dabkerun'])" % names
        command = ["--no-prefix", sys.executable, "-c", script]
        code, out, error = self.run_job(command, hosts=f"{address(1)}:1", environment=there)
        self.assertEqual((code, out), (0, b"PLAIN HOME\n"), error)
        code, out, error = self.run_job(
            ["-x", "DISPLAY", "-x", "PLAIN=other", *command], hosts=f"{address(1)}:1", environment=there
        )
        self.assertEqual((code, out), (0, b"DISPLAY HOME\n"), error)

    def test_two_names_of_one_host_are_one_host(self):
        second_name = "fd77::2"
        with open(self.ssh.known_hosts, encoding="ascii") as file:
            key = next(line for line in file if line.startswith(f"[{address(1)}]"))
        both = self.ssh.file("known_by_both_names")
        with open(both, "w", encoding="ascii") as file:
            file.write(key + key.replace(address(1), second_name))
        code, out, error = self.run_job(
            ["--no-prefix", "sh", "-c", 'echo "$DABKE_RANK $DABKE_LOCAL_RANK $DABKE_HOSTNAME"'],
            hosts=f"{address(1)}:1,[{second_name}]:2",
            known_hosts=both,
        )
        self.assertEqual(code, 0, error)
        self.assertEqual(sorted(out.decode().split("\n")), ["", *(f"{i} {i} {address(1)}" for i in range(3))])
        self.assertIn(f"dabkerun: {address(1)}, {second_name} are one machine", error)

    def test_who_has_not_come_to_init_is_named_with_the_host_while_the_others_wait(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        job = self.ssh.start(
            DABKERUN,
            [
                "--start-timeout",
                "60",
                "sh",
                "-c",
                f'[ "$DABKE_RANK" = 0 ] || {{ echo asleep; exec sleep 1000; }}; exec "{DIGITS}"',
            ],
        )
        self.addCleanup(job.kill)
        line = ""
        while "waiting for" not in line:
            line = job.stderr.readline().decode()
            self.assertTrue(line, "the job has ended early")
        self.assertIn(f"1 of 2 ranks have called dabke_init; waiting for rank 1 on {address(2)}", line)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=200)

    def test_rank_0_reads_what_dabkerun_reads_and_every_byte_of_output_comes(self):
        job = subprocess.Popen(
            self.ssh.on_host(
                0,
                [
                    DABKERUN,
                    "-H",
                    f"{address(1)}:1,{address(2)}:1",
                    "-p",
                    str(PORT),
                    "-i",
                    self.ssh.key,
                    "--no-prefix",
                    "--ssh-args",
                    f"-F none -o UserKnownHostsFile={self.ssh.known_hosts}",
                    "cat",
                ],
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        text = b"".join(b"%d %s\n" % (i, b"x" * (i * 37 % 301)) for i in range(30000))
        self.assertTrue(job.communicate(text, timeout=200)[0] == text)
        self.assertEqual(job.returncode, 0)

    def start_sleepers(self):
        """Starts a job of two ranks that sleep. Returns the job, its mark, and the pids of the ranks."""
        job, mark, pids = self.ssh.start_sleepers(DABKERUN)
        self.addCleanup(job.kill)
        return job, mark, pids

    def test_whatever_is_killed_the_first_line_says_so_and_nothing_is_left(self):
        cases = {
            "rank": (
                lambda job, pids: pids[1],
                rf"rank 1 on host {address(2)} \(pid \d+\) was killed by SIGKILL",
                137,
            ),
            "ssh": (
                lambda job, pids: ssh_below(job.pid),
                r"host 10\.77\.0\.[23]: the connection to its agent was lost: ssh was killed by SIGKILL",
                1,
            ),
            "agent": (
                lambda job, pids: parent_of(parent_of(pids[1])),
                rf"host {address(2)}: the connection to its agent was lost: ssh ",
                1,
            ),
            "supervisor": (
                lambda job, pids: parent_of(pids[1]),
                rf"rank 1 on host {address(2)} \(pid \d+\) was lost: its supervisor",
                137,
            ),
            "launcher": (lambda job, pids: job.pid, None, -9),
        }
        for what, (victim, line, code) in cases.items():
            with self.subTest(killed=what):
                in_time(lambda: self.kill(victim, line, code))

    def kill(self, victim, line, code):
        job, mark, pids = self.start_sleepers()
        begin = time.monotonic()
        os.kill(victim(job, pids), signal.SIGKILL)
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, code, error)
        if line:
            self.assertRegex(error.splitlines()[0], "^dabkerun: " + line)
        expect_clean(mark, begin)

    def test_ctrl_c_ends_the_job_on_every_host(self):
        in_time(self.interrupt)

    def interrupt(self):
        job, mark, _ = self.start_sleepers()
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, 130, error)
        self.assertTrue(error.endswith("dabkerun: the job was ended by SIGINT\n"), error)
        expect_clean(mark, begin)

    def test_ctrl_c_twice_kills_on_every_host_who_does_not_end_on_it(self):
        in_time(self.interrupt_twice)

    def interrupt_twice(self):
        job, mark, _ = self.ssh.start_sleepers(
            DABKERUN, ["--grace-period", "60"], 'trap "" INT TERM; echo "pid $$"; while :; do sleep 1; done'
        )
        self.addCleanup(job.kill)
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        self.assertIn(b"SIGINT: passing it on to all ranks", job.stderr.readline())
        job.send_signal(signal.SIGINT)
        error = job.communicate(timeout=200)[1].decode()
        self.assertEqual(job.returncode, 130, error)
        self.assertIn("killed because they did not end in time: ranks 0-1", error)
        expect_clean(mark, begin)

    def test_a_host_that_is_cut_off_is_lost_after_the_peer_timeout_and_cleans_up_itself(self):
        in_time(self.cut_a_host_off)

    def cut_a_host_off(self):
        mark = f"DABKE_TEST_MARK={os.getpid()}.cut"
        job = self.ssh.start(
            DABKERUN,
            ["--peer-timeout-seconds", f"{PEER_TIMEOUT}", "sh", "-c", "echo ready; exec sleep 1000"],
            environment={"DABKE_TEST_MARK": mark.partition("=")[2]},
        )
        self.addCleanup(job.kill)
        for _ in range(2):
            job.stdout.readline()
        begin = time.monotonic()
        with self.ssh.hosts.cut(0, 2):
            error = job.communicate(timeout=200)[1].decode()
            self.assertEqual(job.returncode, 1, error)
            self.assertRegex(
                error,
                rf"host {address(2)}: the connection to its agent was lost: "
                rf"nothing received for {PEER_TIMEOUT} s",
            )
            expect_clean(mark, begin + PEER_TIMEOUT)

    def test_what_is_wrong_with_a_host_is_said_in_the_first_line_with_what_to_do(self):
        host, here = address(1), self.ssh.place
        changed = self.ssh.file("changed")
        with (
            open(self.ssh.other_key + ".pub", encoding="ascii") as file,
            open(changed, "w", encoding="ascii") as known,
        ):
            known.write(f"[{host}]:{PORT} {file.read()}")
        cases = [
            ("name", "unknown host name: .*address", {"hosts": "no-such-host.invalid:1"}, [], 1),
            (
                "key",
                "permission denied without a password: .*--ssh-identity-file",
                {"key": self.ssh.other_key},
                [],
                1,
            ),
            (
                "changed",
                "its host key has changed: .*ssh-keygen -R",
                {"known_hosts": changed},
                [],
                1,
            ),
            ("unknown key", "unknown host key: ", {"known_hosts": "/dev/null"}, [], 1),
            ("port", "connection refused: .*--ssh-port", {"port": 2223}, [], 1),
            (
                "dabkerun",
                "cannot run /nowhere/dabkerun there: .*--remote-dabkerun",
                {},
                ["--remote-dabkerun", "/nowhere/dabkerun"],
                1,
            ),
        ]
        for what, line, options, flags, code in cases:
            with self.subTest(wrong=what):
                seen, out, error = self.run_job([*flags, "echo", "x"], **{"hosts": f"{host}:1", **options})
                name = options.get("hosts", host).split(":")[0]
                self.assertRegex(error.splitlines()[0], f"^dabkerun: host {re.escape(name)}: {line}")
                self.assertIn("the command was: ssh -T -o BatchMode=yes", error)
                self.assertEqual((seen, out), (code, b""), error)
        with self.subTest(wrong="program"):
            seen, out, error = self.run_job(["no-such-program"], hosts=f"{host}:1")
            self.assertRegex(
                error, rf"^dabkerun: host {host}: cannot run 'no-such-program': no such program in PATH"
            )
            self.assertEqual((seen, out), (127, b""))
        with self.subTest(wrong="directory"):
            gone = os.path.join(here, "gone")
            os.mkdir(gone)
            # The hosts share the file system, so the directory is removed on the way to the host.
            remover = self.ssh.file("shell")
            with open(remover, "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\nrmdir "{gone}"\nshift\nexec sh -c "$*"\n')
            os.chmod(remover, 0o755)
            seen, out, error = self.run_job(
                ["--remote-shell", remover, "echo", "x"], hosts=f"{host}:1", directory=gone
            )
            self.assertRegex(
                error, rf"^dabkerun: host {host}: cannot enter the directory {gone}: [^:].*create it there"
            )
            self.assertEqual((seen, out), (2, b""))


class ManyRanks(unittest.TestCase):
    def test_many_ranks_on_4_hosts_begin_work_together_and_end(self):
        if not DIGITS:
            self.skipTest("the examples are not built")
        ssh = namespaces.opened(type(self), SshHosts(4))
        code, out, error = end_of(
            ssh.start(DABKERUN, [DIGITS, "--epochs", "1"], hosts=ssh.all_hosts(RANKS_A_HOST))
        )
        self.assertEqual(code, 0, error)
        self.assertRegex(out, rf"\[0\]<stdout>:ranks: {4 * RANKS_A_HOST}, .*\n(.*\n)*\[0\]<stdout>:accuracy ")


if __name__ == "__main__":
    unittest.main()
