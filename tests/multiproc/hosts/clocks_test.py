#!/usr/bin/env python3
"""Hosts whose clocks differ, on a slow link: the joint trace has one clock and reports the error of that
clock.

Usage: clocks_test.py RANK_WORKER DABKE_TIMELINE. Exits with 77, which means skipped, where namespaces are not
permitted.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest

import namespaces

WORKER, TOOL = sys.argv.pop(1), sys.argv.pop(1)
DELAY_SECONDS, JITTER_SECONDS = 0.005, 0.001
# Both directions at their slowest, and some turns of the scheduler. On a busy machine a process must wake to
# carry a frame.
ROUND_TRIP_NS = 2 * (DELAY_SECONDS + JITTER_SECONDS) * 1e9 + 60e6
HOUR_NS = 3600 * 10**9


class Clocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = namespaces.Hosts(2).__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def compared(self, clocks, offset_ns):
        """Runs a job on both hosts, the second of whose clocks must be found `offset_ns` ahead. Returns the
        events and the error of that offset."""
        for _ in range(4):  # a busy machine may make all round trips of one job long, not of four
            found, events = self.merged(clocks)
            self.assertEqual([clock["clock"] for clock in found], ["same", "compared"])
            self.assertLessEqual(abs(found[1]["offset_ns"] - offset_ns), found[1]["error_ns"])
            if found[1]["error_ns"] <= ROUND_TRIP_NS:
                break
        self.assertLessEqual(found[1]["error_ns"], ROUND_TRIP_NS)
        return events, found[1]["error_ns"]

    def merged(self, clocks):
        """Returns the clock of each rank, as the trace reports it, and the trace's events."""
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.json")
            ranks = self.hosts.start(
                [0, 1],
                [WORKER, "marked-steps"],
                {"DABKE_TIMELINE": trace, "DABKE_NETWORK_INTERFACE": "10.78.0.0/24"},
                clocks=clocks,
            )
            for rank in ranks:
                self.assertEqual(rank.wait(200), 0, namespaces.output(rank))
            subprocess.run([TOOL, "merge", trace], check=True, capture_output=True)
            with open(trace, encoding="utf-8") as file:
                found = json.load(file)
            said = json.loads(
                subprocess.run([TOOL, "report", "--json", trace], check=True, capture_output=True).stdout
            )
            self.assertAlmostEqual(
                said["clock_error_us"] * 1e3, found["otherData"]["clocks"][1]["error_ns"], places=3
            )
        return found["otherData"]["clocks"], found["traceEvents"]

    def test_the_same_clock_is_found_to_be_the_same_within_the_round_trip(self):
        with self.hosts.far_link(0, 1, DELAY_SECONDS, JITTER_SECONDS):
            self.compared({}, 0)

    def test_a_clock_that_is_an_hour_ahead_is_found_to_be(self):
        with self.hosts.far_link(0, 1, DELAY_SECONDS, JITTER_SECONDS):
            events, error_ns = self.compared({1: 3600}, -HOUR_NS)
        steps = {
            (event["pid"], event["args"]["step"]): event["ts"]
            for event in events
            if event["name"] == "STEP" and event["ph"] == "i"
        }
        # No rank can end a step before the other has begun it. So the marks are less than a step and the
        # error apart. The machine may delay a rank between two marks.
        apart_ns = statistics.median(
            abs(steps[0, step] - steps[1, step]) * 1e3
            for rank, step in steps
            if rank == 0 and (1, step) in steps
        )
        self.assertLess(apart_ns, ROUND_TRIP_NS + error_ns)


if __name__ == "__main__":
    try:
        with namespaces.Hosts(2) as probed, probed.far_link(0, 1, 0, 0):
            pass
    except namespaces.NotPermitted as why:
        print(f"skipped: no network namespaces with devices of their own here: {why}")
        sys.exit(77)
    if subprocess.run(["unshare", "--time", "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: no time namespaces here")
        sys.exit(77)
    unittest.main()
