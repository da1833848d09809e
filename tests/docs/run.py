#!/usr/bin/env python3
"""Executes the shell blocks and programs of README.md and docs/ exactly as the pages print them.

    run.py BUILD [--python BUILD_PYTHON] [--counts FILE] [PAGE...]

Each page runs in a folder of its own, with a link `examples` to the folder of the sources. The blocks run
from top to bottom:

    ```c title="average.c"    is written to that file, as is every block whose title is a file name
    ```sh                     runs in bash, which finds dabkerun, the headers and the Python package
    ```text                   after a shell block: lines of its output; "..." stands for any text
    ```text title="such as"   the same, but numbers may differ

A program without a title is a failure. not_executed.txt lists the blocks that cannot run here, and why.
Ends with "N passed, N failed".
"""

import argparse
import ast
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "counting"))
from counts import write_counts  # noqa: E402

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.S | re.M)
TITLE = re.compile(r'title="([^"]*)"')
FILE_NAME = re.compile(r"[\w./-]+\.\w+|[\w-]*file|hosts")
SHELL = ("sh", "bash", "console")
LIMIT_SECONDS = 120


@dataclasses.dataclass
class Block:
    language: str
    title: str
    text: str
    line: int

    def first_line(self):
        return self.text.strip().split("\n")[0].strip()


def blocks_of(page):
    source = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(source):
        title = TITLE.search(found["info"])
        text = re.sub(rf"(?m)^{found['indent']}", "", found["text"])
        language = found["info"].split(" ")[0].strip()
        yield Block(language, title[1] if title else "", text, source.count("\n", 0, found.start()) + 1)


def read_exceptions():
    """Returns why blocks are not executed. The keys are a page and the first line of a block."""
    exceptions = {}
    for line in (HERE / "not_executed.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            page, first, reason = (part.strip() for part in line.split(" | ", 2))
            exceptions[page, first] = reason
    return exceptions


def is_program(block):
    if block.language in ("c", "cpp", "c++"):
        return "int main(" in block.text
    return (
        block.language == "python"
        and re.search(r"(?m)^(?:import|from) (?:dabke|torch)\b", block.text) is not None
    )


def matches(expected, printed, numbers_differ):
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    if numbers_differ:
        pattern = re.sub(r"\d+(?:(?:\\?[.,])\d+)*", r"[\\d.,]+", pattern)
    pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern)
    return any(re.search(pattern, line) for line in printed)


class Pages:
    def __init__(self, options, environment):
        self.options, self.environment = options, environment
        self.exceptions, self.used = read_exceptions(), set()
        self.failures, self.passed, self.skipped = [], 0, 0

    def run(self, page, folder):
        name = str(page.relative_to(SOURCES))
        os.symlink(SOURCES / "examples", folder / "examples")
        printed = None
        for block in blocks_of(page):
            place = f"{name}:{block.line}"
            if (name, block.first_line()) in self.exceptions:
                self.used.add((name, block.first_line()))
                self.skipped += 1
                printed = None
            elif block.title and FILE_NAME.fullmatch(block.title):
                path = folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.language in SHELL:
                printed = self.run_shell(block, folder, place)
            elif block.language in ("", "text") and printed is not None:
                self.compare(block, printed, place)
                printed = None
            elif is_program(block):
                self.fail(place, 'a program needs title="FILE", so that it can be executed')
            elif block.language == "python":
                self.parse(block, place)

    def run_shell(self, block, folder, place):
        start = time.monotonic()
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        with subprocess.Popen(
            command,
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                self.fail(place, f"it ran for {LIMIT_SECONDS} s\n{output[-2000:]}")
                return None
        if process.returncode != 0:
            self.fail(place, f"it ended with {process.returncode}\n{output[-3000:]}")
            return None
        self.passed += 1
        print(f"passed  {place}  {block.first_line()[:70]}  ({time.monotonic() - start:.1f} s)", flush=True)
        return output.splitlines()

    def compare(self, block, printed, place):
        expected = [line for line in block.text.splitlines() if line.strip(" .")]
        missing = [line for line in expected if not matches(line, printed, block.title == "such as")]
        if missing:
            self.fail(place, "not printed:\n" + "\n".join(missing) + "\nbut:\n" + "\n".join(printed[-40:]))
        else:
            self.passed += 1

    def parse(self, block, place):
        try:
            ast.parse(block.text)
        except SyntaxError as error:
            self.fail(place, f"not valid Python: {error}")
        else:
            self.passed += 1

    def fail(self, place, why):
        self.failures.append(f"FAILED {place}: {why}")
        print(self.failures[-1], flush=True)


def environment_of(build, python_build, folder):
    """Installs the build into `folder`. Returns an environment that finds it before the system's files."""
    installed = folder / "installed"
    subprocess.run(
        [
            os.environ.get("MESON", "meson"),
            "install",
            "-C",
            build,
            "--quiet",
            "--no-rebuild",
            "--destdir",
            installed,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    binary = next(installed.rglob("bin/dabkerun")).parent
    package = next(installed.rglob("dabke.pc")).parent
    library = package.parent
    environment = dict(
        os.environ,
        PATH=f"{binary}:{os.environ['PATH']}",
        PKG_CONFIG_PATH=str(package),
        PKG_CONFIG_SYSROOT_DIR=str(installed),
        LD_LIBRARY_PATH=str(library),
        TMPDIR=str(folder),
        OMP_NUM_THREADS="1",
    )
    environment.pop("PYTHONPATH", None)
    if python_build:
        environment["PATH"] = f"{python_build / 'venv/bin'}:{environment['PATH']}"
        environment["PYTHONPATH"] = str(python_build / "bindings/python")
    return environment


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python", type=lambda text: pathlib.Path(text).absolute(), metavar="BUILD_PYTHON")
    parser.add_argument("--counts", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=lambda text: pathlib.Path(text).resolve())
    options = parser.parse_args()
    pages = options.pages or [SOURCES / "README.md", *sorted((SOURCES / "docs").rglob("*.md"))]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dabke-docs-"))
    try:
        run = Pages(options, environment_of(options.build.resolve(), options.python, folder))
        for number, page in enumerate(pages):
            place = folder / f"{number}-{page.stem}"
            place.mkdir()
            run.run(page, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.pages:
        for page, first in run.exceptions.keys() - run.used:
            run.fail("tests/docs/not_executed.txt", f"{page} has no block that begins with: {first}")
    for place, reason in sorted(run.exceptions.items()):
        print(f"not executed: {place[0]}: {place[1][:60]}: {reason}")
    if options.counts:
        write_counts(options.counts, run.passed, len(run.failures), run.skipped, run.failures)
    print(f"{run.passed} passed, {len(run.failures)} failed, {run.skipped} skipped")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
