#!/usr/bin/env python3
"""Installs the build into a temporary folder and uses it from outside the tree, as a user would.

install_test.py BUILD_DIR SOURCE_DIR VERSION examples|no-examples benchmarks|no-benchmarks [compiler flags]
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, VERSION, EXAMPLES, BENCHMARKS, FLAGS = "", "", "", False, False, []

C_FLAGS = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"]
CPP_FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-pedantic", "-Werror"]


def printed_examples():
    """[(language, program, output)]: the programs of the README and of the first tutorials.

    The output is the one that the pages show.
    """
    found = []
    for page in ("README.md", "docs/tutorials/c.md", "docs/tutorials/cpp.md"):
        with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
            blocks = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        for i, (language, text) in enumerate(blocks):
            if language in ("c", "cpp") and "int main(" in text:
                found.append((language, text, next(text for kind, text in blocks[i:] if kind == "text")))
    return found


def meson_of_the_build():
    """Finds the version of Meson that made the build directory. Only that version can install it."""
    with open(os.path.join(BUILD, "meson-info", "meson-info.json"), encoding="utf-8") as file:
        wanted = json.load(file)["meson_version"]["full"]
    candidates = [os.environ.get("MESON"), shutil.which("meson"), "/usr/bin/meson"]
    for candidate in filter(None, candidates):
        seen = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if seen.returncode == 0 and seen.stdout.strip() == wanted:
            return candidate
    raise RuntimeError(f"Meson {wanted}, which made {BUILD}, is not there; tried {candidates}")


def run(*command, environment=None):
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="dabke-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        stage = os.path.join(cls.folder.name, "stage")
        run(meson_of_the_build(), "install", "-C", BUILD, "--no-rebuild", "--destdir", stage)
        (pc,) = glob.glob(f"{stage}/**/dabke.pc", recursive=True)
        (library,) = glob.glob(f"{stage}/**/libdabke.so", recursive=True)
        (header,) = glob.glob(f"{stage}/**/dabke/dabke.h", recursive=True)
        (launcher,) = glob.glob(f"{stage}/**/dabkerun", recursive=True)
        cls.stage, cls.library, cls.headers, cls.launcher = stage, library, os.path.dirname(header), launcher
        # No job around the test may leak into the programs, and every
        # library path points into the installation.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DABKE_", "HOROVOD_"))}
        cls.environment = dict(
            kept, PKG_CONFIG_PATH=os.path.dirname(pc), LD_LIBRARY_PATH=os.path.dirname(library)
        )

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "dabke", environment=self.environment).split()

    def build(self, compiler, source, name, flags):
        program = os.path.join(self.folder.name, name)
        run(
            *compiler,
            *flags,
            *FLAGS,
            source,
            "-o",
            program,
            *self.pkg_config("--cflags", "--libs"),
            environment=self.environment,
        )
        return program

    def test_pkg_config_knows_the_version_and_points_into_the_installation(self):
        self.assertEqual(self.pkg_config("--modversion"), [VERSION])
        for flag in self.pkg_config("--cflags-only-I", "--libs-only-L"):
            self.assertTrue(os.path.realpath(flag[2:]).startswith(os.path.realpath(self.stage)), flag)
        self.assertEqual(self.pkg_config("--libs-only-l"), ["-ldabke"])

    def test_the_public_headers_are_installed_and_no_others(self):
        headers = ["dabke.h", "dabke.hpp", "dlpack.h", "elastic.hpp"]
        self.assertEqual(sorted(os.listdir(self.headers)), headers)

    def test_each_cpp_header_compiles_by_itself_as_users_include_it(self):
        for header in glob.glob(f"{self.headers}/*.hpp"):
            source = os.path.join(self.folder.name, "alone.cpp")
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"#include <dabke/{os.path.basename(header)}>\nint main() {{}}\n")
            self.build(["c++"], source, "alone", CPP_FLAGS)

    def test_the_smallest_c11_program_builds_outside_the_tree_and_runs(self):
        source = os.path.join(self.folder.name, "hello.c")
        shutil.copy(os.path.join(SOURCE, "examples", "hello.c"), source)
        program = self.build(["cc"], source, "hello", C_FLAGS)
        self.assertIn("0", run(program, environment=self.environment))

    def test_it_runs_under_the_installed_launcher(self):
        source = os.path.join(self.folder.name, "hello.c")
        shutil.copy(os.path.join(SOURCE, "examples", "hello.c"), source)
        program = self.build(["cc"], source, "hello2", C_FLAGS)
        out = run(self.launcher, "-np", "2", program, environment=self.environment)
        self.assertIn("[0]<stdout>:", out)
        self.assertIn("[1]<stdout>:", out)
        self.assertIn(VERSION, run(self.launcher, "--version", environment=self.environment))

    def test_the_printed_programs_build_without_warnings_and_print_what_their_pages_show(self):
        examples = printed_examples()
        self.assertEqual([language for language, _, _ in examples], ["c", "c", "c", "cpp", "cpp"])
        for language, text, expected in examples:
            source = os.path.join(self.folder.name, f"printed.{language}")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            compiler, flags = (["cc"], C_FLAGS) if language == "c" else (["c++"], CPP_FLAGS)
            program = self.build(compiler, source, f"printed_{language}", flags)
            if "SIGKILL" in text:
                continue  # its job loses a rank: tests/docs runs it as the page prints it
            seen = run(self.launcher, "-np", "2", program, environment=self.environment)
            self.assertEqual(sorted(seen.splitlines()), sorted(expected.splitlines()))
            run(program, environment=self.environment)  # without a launcher: a job of one rank

    def test_the_digits_example_is_installed_with_its_data_where_examples_are_on(self):
        programs = glob.glob(f"{self.stage}/**/dabke/digits", recursive=True)
        self.assertEqual(len(programs), 1 if EXAMPLES else 0)
        for program in programs:
            out = run(self.launcher, "-np", "2", program, "--epochs", "1", environment=self.environment)
            self.assertRegex(out, r"accuracy \d+\.\d %")

    def test_dabke_perf_is_installed_where_benchmarks_are_on_and_finds_all_it_needs(self):
        programs = glob.glob(f"{self.stage}/**/dabke-perf", recursive=True)
        self.assertEqual(len(programs), 1 if BENCHMARKS else 0)
        for program in programs:
            tiny = ["-np", "2", "--mpi", "none", "-q", "--runs", "1", "--seconds", "0", "-w", "0"]
            out = run(program, "allreduce", "-b", "8", "-e", "8", *tiny, environment=self.environment)
            self.assertIn("dabke shm", out)
            out = run(
                program,
                "--model",
                "resnet50",
                "--backends",
                "shm",
                "-n",
                "1",
                *tiny,
                environment=self.environment,
            )
            self.assertRegex(out, r"dabke shm +161 ")
            out = run("ldd", program, environment=self.environment)
            self.assertNotIn("libmpi", out)

    def test_the_library_exports_nothing_but_dabke_names(self):
        names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertGreater(len(names), 50)
        versions = {name.split("@")[-1] for name in names if "@" in name}
        foreign = [name for name in names if not name.startswith("dabke_") and name not in versions]
        self.assertEqual(foreign, [])

    def test_the_library_is_tied_to_no_mpi_and_no_cuda(self):
        out = run("ldd", self.library, environment=self.environment)
        self.assertIn("libgloo", out)
        for part in ("libmpi", "libmpich", "libopen-rte", "libcuda", "libcudart", "libnccl"):
            self.assertNotIn(part, out)

    def test_no_module_is_tied_to_cuda_and_no_double_is_installed(self):
        modules = glob.glob(os.path.join(os.path.dirname(self.library), "dabke", "*.so"))
        for file in [self.library, self.launcher, *modules]:
            needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", file))
            self.assertTrue(needed, file)
            self.assertEqual([name for name in needed if "cuda" in name or "nccl" in name], [], file)
        with open(os.path.join(BUILD, "build_parts.h"), encoding="utf-8") as file:
            has_nccl = '{"nccl", "NCCL", true,' in file.read()
        self.assertEqual(
            [os.path.basename(file) for file in modules if "nccl" in file], ["nccl.so"] if has_nccl else []
        )
        self.assertEqual(
            [
                name
                for _, _, names in os.walk(self.stage)
                for name in names
                if name.startswith(("libcuda", "libnccl"))
            ],
            [],
        )

    def test_the_library_has_a_soname_with_the_abi_version(self):
        out = run("readelf", "-d", self.library)
        self.assertRegex(out, r"SONAME.*\[libdabke\.so\.0\]")


if __name__ == "__main__":
    BUILD, SOURCE, VERSION = sys.argv[1:4]
    EXAMPLES, BENCHMARKS, FLAGS = sys.argv[4] == "examples", sys.argv[5] == "benchmarks", sys.argv[6:]
    unittest.main(argv=sys.argv[:1])
