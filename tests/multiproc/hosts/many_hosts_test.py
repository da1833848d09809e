#!/usr/bin/env python3
"""256 hosts, each in a network of its own, reached by a replacement for ssh: at most 64 connections start at
once.

Usage: many_hosts_test.py DABKERUN. Exits with 77, which means skipped, where such networks are not possible.
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest

from job_processes import wait_until

DABKERUN = os.path.abspath(sys.argv.pop(1))
HOSTS, MOST_UNDER_WAY = 256, 64
APART = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec sh -c "$1"', "sh"]


class ManyHosts(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        self.gate = os.path.join(self.place, "gate")
        os.mkfifo(self.gate)
        self.shell = os.path.join(self.place, "shell")
        with open(self.shell, "w", encoding="ascii") as file:
            # The script waits at the gate until the test writes into it.
            file.write(
                f'#!/bin/sh\n: > "{self.place}/came-$1"\nexec 3< "{self.gate}"\n'
                f"""exec {" ".join(APART[:3])} -c '{APART[4]}' sh "$2" 3<&-\n"""
            )
        os.chmod(self.shell, 0o755)

    def came(self):
        return sum(name.startswith("came-") for name in os.listdir(self.place))

    def test_they_come_64_at_a_time_and_all_run(self):
        hosts = ",".join(f"host{i}:1" for i in range(HOSTS))
        job = subprocess.Popen(
            [
                DABKERUN,
                "-H",
                hosts,
                "--remote-shell",
                self.shell,
                "--start-timeout",
                "240",
                "--no-prefix",
                "sh",
                "-c",
                'echo "$DABKE_RANK of $DABKE_SIZE on $DABKE_HOSTNAME"',
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(job.kill)
        wait_until(lambda: self.came() >= MOST_UNDER_WAY, "the first hosts", 120)
        time.sleep(0.5)  # time for too many hosts to come
        self.assertEqual(self.came(), MOST_UNDER_WAY)
        gate = os.open(self.gate, os.O_RDWR)
        self.addCleanup(os.close, gate)
        out, error = job.communicate(timeout=250)
        self.assertEqual(job.returncode, 0, error.decode(errors="replace")[-3000:])
        self.assertEqual(
            sorted(out.decode().splitlines()), sorted(f"{i} of {HOSTS} on host{i}" for i in range(HOSTS))
        )
        self.assertEqual(error, b"")


if __name__ == "__main__":
    try:
        can = subprocess.run([*APART, "true"], capture_output=True, text=True)
        trouble = can.stderr if can.returncode != 0 else ""
    except FileNotFoundError as missing:
        trouble = str(missing)
    if trouble:
        print(f"skipped: no networks of their own here: {trouble}")
        sys.exit(77)
    unittest.main()
