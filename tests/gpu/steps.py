#!/usr/bin/env python3
"""Runs the pack of `tests/gpu/run.sh pack` on a CUDA machine, and prints one table with date and device.

Steps: kernels sanitizer conformance loss measure torch; without a step, all of them. Ends with code 1 if
there is no CUDA device, or if a required step has failed. A way of two that should not work with this NCCL is
recorded, and its failure is not an error.
"""

import argparse
import ctypes
import datetime
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field

from ways import KILL_AFTER_SECONDS, limited_to, on_ranks, way_that_works, ways_by_host, ways_of

HERE = os.path.dirname(os.path.abspath(__file__))
RANK_SECONDS = 480  # a rank's time limit in a job, unless --seconds is given
DABKERUN_SECONDS = 40  # dabkerun's additional time after its ranks


@dataclass
class Row:
    what: str
    how: str
    seen: str
    has_failed: bool = False


@dataclass
class Negotiator:
    folder: str
    logs: str
    is_double: bool
    ranks: list  # numbers of ranks that share a GPU, one job after the other
    seconds: int  # a rank's time limit in a job
    environment: dict = field(default_factory=dict)
    device: str = ""
    devices: int = 0
    software: str = ""
    nccl_version: int = 0
    rows: list = field(default_factory=list)

    def program(self, name):
        return os.path.join(self.folder, "bin", name)


def describe_time(seconds):
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min {seconds % 60:.0f} s"


def nccl_of_python():
    """Returns the path of pip's NCCL for this Python, or an empty text, with which the loader searches for
    NCCL."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        found = None
    for folder in found.submodule_search_locations if found else ():
        file = os.path.join(folder, "lib", "libnccl.so.2")
        if os.path.exists(file):
            return file
    return ""


def open_machine(options):
    folder = options.pack
    machine = Negotiator(folder, options.logs, options.double, options.ranks, options.seconds)
    libraries = [os.path.join(folder, "lib")]
    machine.environment = {**os.environ, "DABKE_MODULE_PATH": os.path.join(folder, "lib", "dabke")}
    nccl = nccl_of_python()
    if options.double:
        libraries.insert(0, os.path.join(folder, "double"))
        nccl = os.path.join(folder, "double", "libnccl.so.2")
        machine.environment.update(FAKE_CUDA_DEVICES="1", DABKE_TEST_MATRIX="pairwise")
    if nccl and "DABKE_NCCL_LIBRARY" not in os.environ:
        machine.environment["DABKE_NCCL_LIBRARY"] = nccl
    if os.environ.get("LD_LIBRARY_PATH"):
        libraries.append(os.environ["LD_LIBRARY_PATH"])
    machine.environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    return machine


def run(machine, log, command, more=None):
    """Returns (exit code, output, seconds). The code is None if the command could not be started or was
    ended."""
    begun = time.monotonic()
    environment = {**machine.environment, **(more or {})}
    limit = machine.seconds + KILL_AFTER_SECONDS + DABKERUN_SECONDS
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        code, output = None, (said.decode(errors="replace") if isinstance(said, bytes) else said)
        output += f"\nended after {limit} s\n"
    except OSError as error:
        code, output = None, f"{error}\n"
    with open(os.path.join(machine.logs, log + ".log"), "w", encoding="utf-8") as file:
        file.write(" ".join(command) + "\n" + output)
    return code, output, time.monotonic() - begun


def why(code, output):
    """Returns the most informative line about the failure."""
    if code in (124, 137) or (code is None and "ended after" in output):
        return "did not end in time"
    lines = [re.sub(r"^\[\d+\]<std(out|err)>:\s*", "", line).strip() for line in output.splitlines()]
    lines = [re.sub(r"^\[[^]]* error\] ", "", line) for line in lines if line and "fake_cuda:" not in line]
    return f"code {code}: {lines[0][:300] if lines else 'nothing was said'}"


def record(machine, what, how, result, must_pass=True, passed="passed"):
    code, output, seconds = result
    if code == 0:
        counted = re.findall(r"(\d+ [a-z ]+ passed)", output)
        row = Row(what, how, f"{counted[0] if counted else passed}, {describe_time(seconds)}")
    elif must_pass:
        row = Row(what, how, f"**failed**: {why(code, output)}", has_failed=True)
    else:
        row = Row(what, how, f"does not work here: {why(code, output)}")
    machine.rows.append(row)
    print(f"{row.what}: {row.seen}", flush=True)
    if row.has_failed:
        print("\n".join(output.splitlines()[-20:]), flush=True)
    return code == 0


def look_at_device(machine):
    """True if there is a device; otherwise prints the reason."""
    code, output, _ = run(
        machine, "device", limited_to(min(120, machine.seconds), [machine.program("gpu_worker"), "device"])
    )
    version = re.search(r"^NCCL version (\d+)$", output, re.MULTILINE)
    devices = re.findall(r"^device \d+: (.+)$", output, re.MULTILINE)
    if code != 0 or not version or not devices:
        said = [line for line in output.splitlines() if "fake_cuda:" not in line]
        print("There is no CUDA device that can be used here: " + (" ".join(said).strip() or f"code {code}"))
        return False
    machine.nccl_version = int(version[1])
    machine.device, machine.devices = devices[0], len(devices)
    machine.software = next(
        line for line in output.splitlines() if line.startswith("NCCL ") and "CUDA driver" in line
    )
    print(f"{len(devices)} x {machine.device}; {machine.software}", flush=True)
    return True


def check_kernels(machine):
    command = limited_to(machine.seconds, [machine.program("gpu_worker"), "kernels"])
    record(
        machine, "the kernels give the host's bits", "`gpu_worker kernels`", run(machine, "kernels", command)
    )


def check_with_sanitizer(machine):
    what, how = "the kernels touch no memory but theirs", "`compute-sanitizer gpu_worker kernels`"
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if machine.is_double or not os.path.exists(tool):
        machine.rows.append(
            Row(
                what,
                how,
                "not run: " + ("there is no device code" if machine.is_double else "it is not there"),
            )
        )
        return
    command = limited_to(
        machine.seconds,
        [tool, "--tool", "memcheck", "--error-exitcode", "9", machine.program("gpu_worker"), "kernels"],
    )
    result = run(machine, "sanitizer", command)
    # A machine may forbid users to debug its GPU, which is not an error. An error that the tool has found is
    # one.
    record(machine, what, how, result, must_pass="ERROR SUMMARY" in result[1] and result[0] == 9)


def check_conformance(machine):
    worker = [machine.program("gpu_worker"), "conformance"]
    record(
        machine,
        "conformance, 1 rank",
        "every collective, dtype, reduce operation and length",
        run(machine, "conformance-1", on_ranks(machine, 1, worker)),
    )
    for ranks in machine.ranks:
        for number, way in enumerate(ways_of(machine, ranks) + ways_by_host(machine, ranks)):
            result = run(
                machine,
                f"conformance-{ranks}-{number}",
                on_ranks(machine, ranks, worker, way),
                way.environment,
            )
            record(machine, f"conformance, {ranks} ranks", way.name, result, way.must_work)


def record_with_figures(machine, what, how, result):
    record(machine, what, how, result)
    record_its_figures(machine, result, how)


def record_figures(machine, result, how):
    if result[0] != 0:
        record(machine, "figures", how, result)
    record_its_figures(machine, result, how)


def record_its_figures(machine, result, how):
    _, output, _ = result
    for what, figure in re.findall(r"^\[\d+\]<stdout>:figure: (.+?) \| (.+)$", output, re.MULTILINE):
        machine.rows.append(
            Row(what, how, figure if not machine.is_double else "ran; a double has no figures")
        )
        print(f"{what}: {machine.rows[-1].seen}", flush=True)


def measure(machine):
    program = [machine.program("gpu_worker"), "measure"] + ([str(1 << 20)] if machine.is_double else [])
    record_figures(
        machine,
        run(machine, "clock", on_ranks(machine, 1, [machine.program("gpu_worker"), "clock"])),
        "`gpu_worker clock`",
    )
    record_figures(machine, run(machine, "measure-1", on_ranks(machine, 1, program)), "`gpu_worker measure`")
    way = way_that_works(machine, 2)
    record_figures(
        machine,
        run(machine, "measure-2", on_ranks(machine, 2, program, way), way.environment),
        f"`gpu_worker measure`, {way.name}",
    )
    # Runs as many ranks as possible: a sum over two ranks is rounded once, in any type.
    ranks = max(machine.ranks)
    way = way_that_works(machine, ranks)
    result = run(
        machine,
        "arithmetic",
        on_ranks(machine, ranks, [machine.program("gpu_worker"), "arithmetic"], way),
        way.environment,
    )
    record_figures(machine, result, f"`gpu_worker arithmetic`, {way.name}")


def check_loss(machine):
    """Kills the last rank. dabkerun must only check that the other ranks end with success."""
    for ranks in sorted({2, max(machine.ranks)}):
        way = way_that_works(machine, ranks)
        forgiving = [
            "sh",
            "-c",
            f'"$@"; code=$?; [ $DABKE_RANK = {ranks - 1} ] || exit $code',
            "rank",
            machine.program("gpu_worker"),
            "loss",
        ]
        result = run(machine, f"loss-{ranks}", on_ranks(machine, ranks, forgiving, way), way.environment)
        record_with_figures(
            machine, f"a rank of {ranks} is killed amid collectives", f"`gpu_worker loss`, {way.name}", result
        )


def libraries_for_python(machine):
    """Makes a folder with those libraries of the package that this machine lacks: its PyTorch and Python use
    the machine's own."""
    carried, folder = os.path.join(machine.folder, "python", "lib"), os.path.join(machine.logs, "python-lib")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in os.listdir(carried):
        try:
            ctypes.CDLL(name)
        except OSError:
            os.symlink(os.path.join(carried, name), os.path.join(folder, name))
    return folder


def why_no_torch(machine, variables):
    """Returns the reason why `dabke.torch` cannot run, or an empty text."""
    if machine.is_double:
        return "it needs a GPU"
    if "PYTHONPATH" not in variables:
        return "the folder was packed without the Python package"
    for log, program in (
        ("torch-there", 'import torch; assert torch.cuda.is_available(), "PyTorch sees no CUDA device"'),
        ("torch-package", "import dabke.torch"),
    ):
        code, output, _ = run(machine, log, [sys.executable, "-c", program], variables)
        if code != 0:
            return (output.strip().splitlines() or [f"code {code}"])[-1]
    return ""


def check_torch(machine):
    what, how = "`dabke.torch`: CUDA tensors, streams, `DistributedOptimizer`", "`torch_job.py tensors`"
    ddp, ddp_how = "torch.distributed over dabke: CUDA tensors, futures, DDP", "`torch_job.py ddp`"
    package = os.path.join(machine.folder, "python")
    variables = {}
    if os.path.exists(package):
        inherited = os.environ.get("LD_LIBRARY_PATH")
        variables = {
            "PYTHONPATH": package,
            "LD_LIBRARY_PATH": libraries_for_python(machine) + (":" + inherited if inherited else ""),
        }
    reason = why_no_torch(machine, variables)
    if reason:
        machine.rows += [Row(what, how, f"not run: {reason}"), Row(ddp, ddp_how, f"not run: {reason}")]
        return
    # The module is the one of the package's library, which finds it in its own folder. NCCL is PyTorch's.
    program = [
        "env",
        "-u",
        "DABKE_MODULE_PATH",
        "-u",
        "DABKE_NCCL_LIBRARY",
        *(f"{name}={value}" for name, value in variables.items()),
        sys.executable,
        os.path.join(machine.folder, "torch_job.py"),
    ]
    for part, row, its_how in (("tensors", what, how), ("ddp", ddp, ddp_how)):
        result = run(machine, f"torch-{part}-1", on_ranks(machine, 1, [*program, part]))
        record_with_figures(machine, row + ", 1 rank", its_how, result)
        way = way_that_works(machine, 2)
        result = run(machine, f"torch-{part}-2", on_ranks(machine, 2, [*program, part], way), way.environment)
        record_with_figures(machine, row + ", 2 ranks", f"{its_how}, {way.name}", result)


def table_of(machine):
    today = datetime.date.today().isoformat()
    if machine.is_double:
        head = f"## DOUBLE, {today}: there was no GPU, and nothing here says anything about one"
    else:
        head = f"## {today}, {machine.devices} x {machine.device}, {machine.software.split(', ')[-1]}"
    lines = [head, "", machine.software, "", "| what | how | seen |", "| --- | --- | --- |"]
    lines += [f"| {row.what} | {row.how} | {row.seen.replace('|', '/')} |" for row in machine.rows]
    return "\n".join(lines) + "\n"


STEPS = {
    "kernels": check_kernels,
    "sanitizer": check_with_sanitizer,
    "conformance": check_conformance,
    "loss": check_loss,
    "measure": measure,
    "torch": check_torch,
}


def find_pack():
    """Returns this folder if it was packed, otherwise the default folder of `pack`."""
    if os.path.exists(os.path.join(HERE, "bin", "gpu_worker")):
        return HERE
    return os.path.join(os.path.dirname(os.path.dirname(HERE)), "build-gpu")


def main():
    parser = argparse.ArgumentParser(
        prog="run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=" ".join(STEPS))
    parser.add_argument(
        "--ranks",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[2, 3, 4],
        help="how many share a GPU in `conformance`, one job after the other (2,3,4)",
    )
    parser.add_argument(
        "--seconds", type=int, default=RANK_SECONDS, help=f"after which a rank is ended ({RANK_SECONDS})"
    )
    parser.add_argument("--pack", default=find_pack(), help="the folder that `run.sh pack` has made")
    parser.add_argument(
        "--double",
        action="store_true",
        help="on the doubles of tests/fake_cuda: tries this script, and no GPU",
    )
    parser.add_argument(
        "--logs", default="gpu-logs", help="the folder for what the steps say, and for the table (results.md)"
    )
    options = parser.parse_args()
    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        parser.error(f"there is no step {', '.join(unknown)}; there are: {' '.join(STEPS)}")
    options.pack, options.logs = os.path.abspath(options.pack), os.path.abspath(options.logs)
    if not os.path.exists(os.path.join(options.pack, "bin", "gpu_worker")):
        raise SystemExit(
            f"there is nothing in {options.pack}: run tests/gpu/run.sh pack where Dabke is built"
        )
    os.makedirs(options.logs, exist_ok=True)
    machine = open_machine(options)
    if not look_at_device(machine):
        return 1
    for name in options.steps or STEPS:
        STEPS[name](machine)
    table = table_of(machine)
    with open(os.path.join(options.logs, "results.md"), "w", encoding="utf-8") as file:
        file.write(table)
    print("\n" + table, end="")
    return 1 if any(row.has_failed for row in machine.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
