#!/usr/bin/env python3
"""`dabkerun doctor` over real ssh, on hosts made of network namespaces: good hosts, and hosts with one fault
each.

Usage: doctor_test.py DABKERUN. Exits with 77, which means skipped, where such hosts are not possible.
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest

import namespaces
from job_processes import end_of
from ssh_hosts import SshHosts, address

DABKERUN = os.path.abspath(sys.argv.pop(1))


class Doctor(unittest.TestCase):
    """The doctor runs on host 0; hosts 1 to 3 have an sshd."""

    @classmethod
    def setUpClass(cls):
        cls.ssh = namespaces.opened(cls, SshHosts(3))

    def examine(self, hosts, *flags, json_wanted=True, wrong=0):
        """Runs the doctor. `wrong` is the number of faults that it must find. A busy machine may make a host
        late for one examination, but not for each of four."""
        for _ in range(4):
            # The subcommand comes first, before the flags that reach the hosts by ssh.
            code, out, error = end_of(
                self.ssh.start(
                    [DABKERUN, "doctor"],
                    [*(["--json"] if json_wanted else []), *flags],
                    hosts=",".join(f"{each}:1" for each in hosts),
                )
            )
            report = json.loads(out) if json_wanted and out else out
            if code == (0 if wrong == 0 else 1) and (not json_wanted or len(self.wrong(report)) == wrong):
                break
        return code, report, error

    def script(self, text):
        """Replaces dabkerun on the hosts by a script; in it, $NAME is the host's name."""
        path = self.ssh.file("dabkerun-there")
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nNAME=$(hostname)\n{text}\nexec {DABKERUN} "$@"\n')
        os.chmod(path, 0o755)
        return ["--remote-dabkerun", path]

    @staticmethod
    def wrong(report):
        return [each["what"] for each in report["findings"] if each["is_wrong"]]

    @staticmethod
    def notes(report):
        return [each["what"] for each in report["findings"] if not each["is_wrong"]]

    def test_of_good_hosts_every_way_is_measured_at_an_address_that_leads_there(self):
        hosts = [address(i) for i in range(4)]
        code, report, error = self.examine(hosts)
        self.assertEqual((code, self.wrong(report)), (0, []), error)
        self.assertEqual(
            [(each["host"], each["is_here"], each["is_well"]) for each in report["hosts"]],
            [(each, each == address(0), True) for each in hosts],
        )
        self.assertEqual([each["host_name"] for each in report["hosts"][1:]], ["host1", "host2", "host3"])
        for host in report["hosts"]:
            self.assertLessEqual(host["processors"], host["all_processors"])
            self.assertGreater(host["free_memory"], 0)
            # All hosts have the same clock.
            self.assertLessEqual(abs(host["clock_ahead_ns"]), host["clock_bound_ns"] + 5_000_000)
        self.assertEqual(
            sorted((way["from"], way["to"]) for way in report["ways"]),
            sorted((one, other) for one in hosts for other in hosts if one != other),
        )
        for way in report["ways"]:
            self.assertRegex(way["address"], rf"^({re.escape(way['to'])}:|\[fd77::)\d")
            self.assertGreater(way["round_trip_ns"], 0)
            self.assertGreater(way["bytes_per_s"], 0)
        self.assertGreater(max(way["bytes_per_s"] for way in report["ways"]), 1_000_000)  # the best path
        code, text, error = self.examine(hosts, json_wanted=False)
        self.assertEqual(code, 0, error)
        self.assertRegex(text, r"^dabkerun \S+\n\nhost +slots +agent +clock ahead +processors")
        self.assertIn(f"{address(0)} (this one)", text)
        self.assertIn("Connections between hosts, each measured for 0.5 s over TCP:\n", text)
        self.assertTrue(text.endswith("Nothing is wrong.\n"), text)
        self.assertIn("dabkerun: doctor: measuring bandwidth, round 1 of 3", error)

    def test_interfaces_that_are_named_are_used(self):
        code, report, error = self.examine([address(1), address(2)], "--network-interfaces", "fd77::/64")
        self.assertEqual(code, 0, error)
        self.assertEqual(
            [way["address"].partition("]")[0] for way in report["ways"]], ["[fd77::3", "[fd77::2"]
        )

    def test_what_keeps_hosts_from_a_job_is_one_row_each_beside_those_that_are_well(self):
        gone = "no-such-host.invalid"
        other = self.script(
            '[ $NAME != host2 ] || { printf "\\ndabke-agent 0.0.1/1 x\\n"; exec sleep 1000; }'
        )
        begin = time.monotonic()
        code, report, error = self.examine([address(1), address(2), gone, address(3)], *other, wrong=2)
        self.assertEqual(code, 1, error)
        wrong = self.wrong(report)
        self.assertEqual(len(wrong), 2, wrong)
        self.assertRegex(
            wrong[0], rf"^host {address(2)}: the dabkerun there has version 0\.0\.1/1, this one has "
        )
        self.assertRegex(wrong[1], rf"^host {gone}: unknown host name: ")
        self.assertEqual(
            [(way["from"], way["to"], way["trouble"]) for way in report["ways"]],
            [(address(1), address(3), ""), (address(3), address(1), "")],
        )
        self.assertLess(time.monotonic() - begin, 300)

    def test_a_port_that_is_refused_and_a_host_that_is_silent_are_said_in_time(self):
        shell = self.ssh.file("silent-shell")
        with open(shell, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ "$1" != silent ] || exec sleep 1000\nshift\nexec sh -c "$*"\n')
        os.chmod(shell, 0o755)
        begin = time.monotonic()
        code, report, error = self.examine(
            ["silent", "other"], "--remote-shell", shell, "--start-timeout", "15", wrong=1
        )
        self.assertEqual(code, 1, error)
        self.assertRegex(self.wrong(report)[0], "^host silent: not ready after 15 s ")
        self.assertEqual([each["is_well"] for each in report["hosts"]], [False, True])
        self.assertLess(time.monotonic() - begin, 300)
        code, report, error = self.examine([address(1)], "-p", "2223", wrong=1)
        self.assertEqual(code, 1, error)
        self.assertRegex(self.wrong(report)[0], rf"^host {address(1)}: connection refused: ")

    def test_a_pair_whose_likeliest_addresses_do_not_lead_there_takes_the_next(self):
        with self.ssh.hosts.cut(1, 2, ["10.77.0."]):  # their IPv6 addresses still work
            code, report, error = self.examine([address(1), address(2), address(3)])
        self.assertEqual(code, 0, error)
        others = [way for way in report["ways"] if way["address"].startswith("[")]
        self.assertEqual(
            sorted((way["from"], way["to"]) for way in others),
            [(address(1), address(2)), (address(2), address(1))],
        )

    def test_limits_and_a_small_shared_memory_are_said_with_what_to_do(self):
        there = self.script(
            f"[ $NAME != host1 ] || ulimit -n 70\n"
            "[ $NAME != host2 ] || exec unshare --mount sh -c "
            f'\'mount -t tmpfs -o size=1m none /dev/shm && exec {DABKERUN} "$@"\' sh "$@"'
        )
        code, report, error = self.examine([address(1), address(2)], *there, wrong=1)
        self.assertEqual(code, 1, error)
        self.assertEqual(len(self.wrong(report)), 1)
        self.assertRegex(
            self.wrong(report)[0],
            rf"^host {address(1)}: 1 rank may need 128 open files, "
            r"but the hard limit is 70 \(ulimit -Hn\): raise ",
        )
        self.assertTrue(
            any(
                re.match(rf"host {address(2)}: /dev/shm has 1\.0 MiB free, .*mount it larger", note)
                for note in self.notes(report)
            ),
            self.notes(report),
        )

    def test_this_host_alone_is_examined_and_what_is_asked_wrongly_is_said(self):
        here = subprocess.run(
            self.ssh.on_host(0, [DABKERUN, "doctor", "--json"]),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        self.assertEqual((here.returncode, json.loads(here.stdout)["ways"]), (0, []), here.stderr)
        for words, said in (
            (["./train"], "doctor ./train: the doctor does not start a command; leave it out"),
            (["-H", "a:0"], "-H a:0: 'a:0' is not a host: "),
        ):
            asked = subprocess.run(
                [DABKERUN, "doctor", *words], capture_output=True, text=True, timeout=200, check=False
            )
            self.assertEqual((asked.returncode, asked.stdout), (2, ""))
            self.assertIn("dabkerun: " + said, asked.stderr)


class CutPair(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ssh = namespaces.opened(cls, SshHosts(2))

    def test_two_hosts_between_which_nothing_passes(self):
        self.ssh.hosts.forget_ipv6()
        with self.ssh.hosts.cut(1, 2):
            code, out, error = end_of(self.ssh.start([DABKERUN, "doctor"], ["--json"]))
        self.assertEqual(code, 1, error)
        wrong = Doctor.wrong(json.loads(out))
        self.assertEqual(len(wrong), 2, wrong)
        self.assertRegex(
            wrong[0],
            rf"^host {address(1)} does not reach host {address(2)}: .*{address(2)}:\d+: no answer"
            r".*let firewalls pass TCP between them \(ports \d+ to \d+\)",
        )
        self.assertRegex(wrong[1], rf"^host {address(2)} does not reach host {address(1)}: ")


if __name__ == "__main__":
    unittest.main()
