#!/usr/bin/env python3
"""Checks that the counter counts right, and that it sees every test file.

    run_test.py VICTIM BUILD_DIR TESTS_DIR [PATTERN...]

VICTIM is the program of victim.cc. A PATTERN names files that are not in the build.
"""

import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import run  # noqa: E402

VICTIM, BUILD, TESTS, LEFT_OUT = "", "", "", []


def entry(name, result, returncode=0, stdout="", duration=1.0):
    return json.dumps(
        {"name": name, "result": result, "returncode": returncode, "stdout": stdout, "duration": duration}
    )


class Counting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_victim(self, tag, hangs_after=None):
        """Counts the log line that Meson would write about `victim TAG` under the wrapper."""
        environment = dict(os.environ, DABKE_TEST_REPORTS=self.folder.name)
        # The victim crashes on purpose, so a sanitizer must not report it.
        environment["ASAN_OPTIONS"] = "handle_segv=0:detect_leaks=0"
        environment["TSAN_OPTIONS"] = "handle_segv=0"
        program = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "wrapper.py"), VICTIM, tag],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        result, stdout = None, ""
        if hangs_after:
            while hangs_after not in stdout:
                line = program.stdout.readline()
                self.assertTrue(line, stdout)  # otherwise the victim has ended
                stdout += line
            program.terminate()
            result = "TIMEOUT"
        stdout += program.communicate()[0]
        code = program.returncode
        result = result or ("OK" if code == 0 else "SKIP" if code == 77 else "FAIL")
        self.returncode, self.stdout = code, stdout
        return run.count_log([entry("victim", result, code, stdout)], ["victim"])

    def check(self, counts, passed, failed, text=""):
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (passed, failed, 0), counts.failures)
        if text:
            self.assertIn(text, counts.failures[0])

    def test_a_catch2_program_counts_as_its_test_cases(self):
        self.check(self.run_victim("[pass]"), 2, 0)
        self.assertEqual(self.returncode, 0)

    def test_what_a_program_and_its_children_computed_is_told(self):
        spin = "import time\nwhile time.process_time() < 0.2: pass"
        output = subprocess.run(
            [
                sys.executable,
                os.path.join(HERE, "wrapper.py"),
                "sh",
                "-c",
                f'{sys.executable} -c "{spin}"; :',
            ],
            env=dict(os.environ, DABKE_TEST_REPORTS=self.folder.name),
            check=True,
            capture_output=True,
            text=True,
        )
        counts = run.count_log([entry("process - dabke:spin", "OK", 0, output.stdout)], ["spin"])
        self.assertEqual(list(counts.cpu_seconds), ["spin"])
        self.assertGreaterEqual(counts.cpu_seconds["spin"], 0.2)

    def test_a_failed_test_case_is_counted_named_and_explained(self):
        counts = self.run_victim("[fail]")
        self.check(counts, 0, 1, "victim: a claim that does not hold")
        self.assertIn("1 == 2", counts.failures[0])
        self.assertIn("1 == 2", self.stdout)
        self.assertIn("victim.cc:", self.stdout)

    def test_a_test_case_that_cannot_run_is_skipped_with_its_reason(self):
        counts = self.run_victim("[skips]")
        self.assertEqual((counts.passed, counts.failed), (0, 0), counts.failures)
        self.assertEqual(counts.skips, ["victim: it needs what is not here (there is no sea)"])

    def test_a_failure_beside_what_cannot_run_is_a_failure(self):
        self.check(self.run_victim("[skipsandfails]"), 0, 1, "one of its sections fails")

    def test_an_uncaught_exception_is_a_failure(self):
        self.check(self.run_victim("[throws]"), 0, 1, "an exception nobody catches")

    def test_seventy_seven_failed_checks_are_not_a_skipped_test(self):
        self.check(self.run_victim("[skipcode]"), 0, 1, "seventy-seven")
        self.assertEqual(self.returncode, 77)

    def test_a_crash_is_a_failure_that_names_the_test_case(self):
        self.check(self.run_victim("[crash]"), 1, 1, "it crashes here")
        self.assertNotEqual(self.returncode, 0)

    def test_a_killed_program_is_a_failure_that_names_the_test_case(self):
        self.check(self.run_victim("[killed]"), 1, 1, "was killed by SIGKILL in 'it is killed here'")

    def test_a_hanging_program_is_a_failure(self):
        self.check(self.run_victim("[hang]", hangs_after="hangs now"), 1, 1, "it hangs here")

    def test_a_program_that_leaves_early_with_code_0_is_a_failure(self):
        self.check(self.run_victim("[leaves]"), 1, 1, "it leaves with code 0")

    def test_a_bad_end_after_good_test_cases_is_a_failure(self):
        self.check(self.run_victim("[badend]"), 2, 1, "ended with code 3 after 2 test cases that passed")

    def test_a_program_that_runs_no_test_case_is_a_failure(self):
        self.check(self.run_victim("[nothing]"), 0, 1, "ran no test case")

    def test_other_tests_count_as_one_each(self):
        counts = run.count_log(
            [
                entry("a", "OK"),
                entry("b", "FAIL", 2),
                entry("c", "SKIP", 77),
                entry("d", "TIMEOUT", -15, duration=30),
                entry("e", "ERROR", -11),
            ],
            list("abcde"),
        )
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (1, 3, 1))
        self.assertEqual(
            counts.failures,
            ["b: ended with code 2", "d: hung: stopped after 30 s", "e: was killed by SIGSEGV"],
        )
        self.assertEqual(counts.skips, ["c"])

    def test_a_failure_is_counted_with_the_last_words_of_its_test(self):
        words = "".join(f"line {number}\n\n" for number in range(100))
        counts = run.count_log([entry("a", "FAIL", 1, words)], ["a"])
        lines = counts.failures[0].splitlines()
        self.assertEqual(
            (lines[0], lines[1], lines[-1]), ("a: ended with code 1", "    | line 88", "    | line 99")
        )

    def test_what_failed_stands_below_the_counts(self):
        path = os.path.join(self.folder.name, "counts")
        run.write_counts(path, 1, 2, 3, ["FAILED a\n    | why", "FAILED b"])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "1 2 3\nFAILED a\n    | why\nFAILED b\n")

    def test_a_test_that_did_not_run_is_a_failure(self):
        self.check(run.count_log([entry("dabke:room / a", "OK")], ["a", "b"]), 1, 1, "b: was not run")

    def test_no_tests_at_all_is_a_failure(self):
        self.check(run.count_log([], []), 0, 1, "there was no test to run")

    def test_a_report_that_is_not_there_is_a_failure(self):
        self.check(run.count_log([entry("a", "OK", stdout="catch2 report: /nowhere/a.xml\n")], ["a"]), 0, 1)


def compiled_together(source):
    """The files that a unity build compiles as this source; none for any other source."""
    if not re.search(r"-unity\d+\.c", source):
        return []
    with open(source, encoding="utf-8") as file:
        return [os.path.realpath(each) for each in re.findall(r'#include\s*[<"](.*)[>"]', file.read())]


class Completeness(unittest.TestCase):
    def test_every_file_of_tests_is_compiled(self):
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
            sources = {
                os.path.realpath(os.path.join(each["directory"], each["file"])) for each in json.load(file)
            }
        compiled = {one for source in sources for one in (compiled_together(source) or [source])}
        files = glob.glob("**/*_test.c*", root_dir=TESTS, recursive=True)
        self.assertGreater(len(files), 10)
        missing = [file for file in files if os.path.realpath(os.path.join(TESTS, file)) not in compiled]
        self.assertEqual(
            [file for file in missing if not any(fnmatch.fnmatch(file, each) for each in LEFT_OUT)], []
        )
        self.assertEqual(
            [each for each in LEFT_OUT if not fnmatch.filter(missing, each)], [], "these are in the build"
        )


if __name__ == "__main__":
    VICTIM, BUILD, TESTS, *LEFT_OUT = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
