#!/usr/bin/env python3
"""benchmarks/plot draws the output of dabke-perf, and reports what is wrong with any other input.

plot_test.py PATH_OF_PLOT
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

PLOT = ""
SVG = "{http://www.w3.org/2000/svg}"


def row(competitor, size, us, **more):
    return {
        "mode": "sweep",
        "job": "mpich",
        "competitor": competitor,
        "collective": "allreduce",
        "dtype": "float32",
        "op": "sum",
        "in_place": True,
        "ranks": 2,
        "cores": 2,
        "bytes": size,
        "time_us": us,
        "busbw_gb_s": size / us * 1e-3,
        **more,
    }


class Plot(unittest.TestCase):
    def draw(self, content, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            return subprocess.run(
                [sys.executable, PLOT, path, *arguments], capture_output=True, text=True, check=False
            )

    def lines_of(self, *rows):
        done = self.draw(json.dumps({"results": rows}))
        self.assertEqual(done.returncode, 0, done.stderr)
        picture = ET.fromstring(done.stdout)
        return picture, [line.get("points").split() for line in picture.iter(SVG + "polyline")]

    def test_each_competitor_has_a_line_of_all_its_sizes_in_both_panels(self):
        rows = [
            row(name, size, size / speed)
            for name, speed in (("dabke shm", 4), ("raw <gloo>", 1))
            for size in (8, 4096, 1 << 20)
        ]
        picture, lines = self.lines_of(*rows)
        self.assertEqual([len(line) for line in lines], [3, 3, 3, 3])
        self.assertIn("raw <gloo>", [text.text for text in picture.iter(SVG + "text")])

    def test_slower_is_higher_and_larger_is_further_right(self):
        _, lines = self.lines_of(
            *(row("dabke shm", size, size) for size in (8, 64, 512)), row("raw gloo", 8, 1000)
        )
        xs = [float(point.split(",")[0]) for point in lines[0]]
        ys = [float(point.split(",")[1]) for point in lines[0]]
        self.assertEqual(xs, sorted(xs))
        self.assertEqual(ys, sorted(ys, reverse=True))
        self.assertLess(float(lines[1][0].split(",")[1]), ys[0])

    def test_memory_has_no_bus_bandwidth(self):
        _, lines = self.lines_of(row("dabke shm", 8, 1), row("memcpy", 8, 1))
        self.assertEqual(len(lines), 3)

    def test_of_what_two_jobs_have_measured_the_first_is_drawn(self):
        _, lines = self.lines_of(
            row("dabke shm", 8, 1), row("dabke shm", 64, 1), row("dabke shm", 8, 9, job="openmpi")
        )
        self.assertEqual([len(line) for line in lines], [2, 2])

    def test_what_is_no_measurement_is_refused_by_name(self):
        for content in (
            "",
            "[]",
            '{"results": 3}',
            json.dumps({"results": []}),
            json.dumps({"results": [row("dabke shm", 8, 1, mode="latency")]}),
        ):
            done = self.draw(content)
            self.assertNotEqual(done.returncode, 0)
            self.assertTrue(done.stderr.startswith("plot: ") and "seen.json" in done.stderr, done.stderr)


if __name__ == "__main__":
    PLOT = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
