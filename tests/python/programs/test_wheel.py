"""A wheel: its content, and that it works where only the wheel is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import ended

ROOT = Path(__file__).resolve().parents[3]
# Options that the wheel gets from the build under test. So the cache of the compiler has all results.
OPTIONS = ("buildtype", "debug", "optimization", "c_args", "cpp_args", "werror", "b_ndebug")
# The program prints in one write, with the line end: under mpirun, both ranks write into one pipe.
PROGRAM = (
    "import array, dabke, sys\n"
    "dabke.init()\n"
    'average = dabke.allreduce(array.array("d", [dabke.rank()])).tolist()\n'
    'sys.stdout.write(f"{average}\\n")\n'
)


def options_of(build):
    for option in json.loads((build / "meson-info" / "intro-buildoptions.json").read_text()):
        if option["name"] in OPTIONS:
            value = option["value"]
            text = ",".join(value) if isinstance(value, list) else str(value)
            yield f"{option['name']}={text.lower() if isinstance(value, bool) else text}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not Path(ROOT, ".git").exists():
        pytest.skip("meson-python builds from a checkout here")
    folder = tmp_path_factory.mktemp("wheel")
    scripts = os.path.dirname(sys.executable)
    # The wheel's build folder lies beside the build, so that relative paths, too, are those in the cache.
    built = Path(os.environ["DABKERUN"]).parents[1]
    settings = [f"-Csetup-args=-D{option}" for option in options_of(built)]
    done = ended(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            ROOT,
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            f"-Cbuild-dir={built.with_name(built.name + '-wheel')}",
            *settings,
        ],
        900,
        {"PATH": scripts + os.pathsep + os.environ["PATH"]},
    )
    assert done.code == 0, done.output
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The programs' folder of a fresh environment that has only the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    done = ended(
        [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", wheel],
        300,
    )
    assert done.code == 0, done.output
    return folder / "bin"


def test_a_wheel_carries_the_library_with_what_it_needs_its_modules_and_dabkerun(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for carried in (
        "dabke/lib/libdabke.so.0",
        "dabke/bin/dabkerun",
        "dabke/bin/dabke-timeline",
        "dabke/lib/libgloo-dabke.so.0",
        "dabke/tensorflow/dabke_tensorflow.so",
        "dabke/py.typed",
        "dabke/_core.pyi",
    ):
        assert carried in names
    assert any(re.match(r"dabke/lib/libspdlog-dabke\.so", name) for name in names)
    built = list(Path(os.environ["DABKERUN"]).parents[1].glob("bindings/c/dabke/*.so"))
    asked_for = {"nccl.so"}  # these modules are in a build, and so in a wheel, only on request
    assert {f"dabke/lib/dabke/{module.name}" for module in built if module.name not in asked_for} <= set(
        names
    )
    assert not [name for name in names if re.search(r"libcrypto|libstdc|libmpi", name)]


def test_no_symbol_of_what_it_carries_can_meet_another_copys(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for library in (tmp_path / "dabke" / "lib").rglob("*.so*"):
        symbols = subprocess.run(
            ["nm", "-D", "--format=posix", "--without-symbol-versions", library],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        foreign = [
            line
            for line in symbols.splitlines()
            if re.search(r"4gloo|3fmt2v|6spdlog", line.split()[0])
            and not line.split()[0].endswith("_of_dabke")
        ]
        assert foreign == [], library.name


def test_it_works_where_nothing_else_is_installed(installed, tmp_path, program):
    done = ended(
        [installed / "dabkerun", "-np", "2", installed / "python", program(PROGRAM)], 300, {"PYTHONPATH": ""}
    )
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["[0.5]"]
    trace = tmp_path / "trace.json"
    recorded = ended(
        [
            installed / "dabkerun",
            "-np",
            "2",
            "--timeline-filename",
            trace,
            installed / "python",
            program(PROGRAM),
        ],
        300,
        {"PYTHONPATH": ""},
    )
    assert recorded.code == 0, recorded.output
    told = ended([installed / "dabke-timeline", "report", trace], 300, {"PYTHONPATH": ""})
    assert told.code == 0 and "2 ranks" in told.output, told.output


def test_it_works_where_the_system_has_none_of_the_libraries(installed, program):
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    hidden = re.findall(r"=> (/\S*/lib(?:gloo|fmt|spdlog|hwy|cpp-httplib|dw|hiredis)\.so\S*)", listed)
    hide = "; ".join(f"mount --bind /dev/null {os.path.realpath(path)}" for path in hidden)
    if subprocess.run(["unshare", "-m", "bash", "-ec", hide], capture_output=True).returncode != 0:
        pytest.skip("this user may not hide the libraries of the system")
    path = program(PROGRAM)
    done = ended(
        [
            "unshare",
            "-m",
            "bash",
            "-ec",
            f"{hide}; exec {installed}/dabkerun -np 2 {installed}/python {path}",
        ],
        300,
        {"PYTHONPATH": ""},
    )
    assert done.code == 0, done.output
    assert done.lines_of(1) == ["[0.5]"]


def test_mpirun_starts_a_job_of_it(installed, program):
    mpirun = shutil.which("mpirun.mpich")
    if mpirun is None or not list((installed.parent / "lib").rglob("mpi-mpich.so")):
        pytest.skip("there is no MPICH")
    done = ended([mpirun, "-n", "2", installed / "python", program(PROGRAM)], 300, {"PYTHONPATH": ""})
    assert done.code == 0, done.output
    assert done.output.split() == ["[0.5]", "[0.5]"]


@pytest.mark.parametrize(
    "first",
    [
        "import dabke, torch",
        "import torch, dabke",
        'import ctypes, os, torch\nctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", '
        '"libtorch_cpu.so"), os.RTLD_GLOBAL)\nimport dabke',
    ],
    ids=["before torch", "after torch", "with all of torch in sight"],
)
def test_its_gloo_and_torchs_work_in_one_process(installed, program, tmp_path, first):
    pytest.importorskip("torch")
    packages = next(installed.parent.glob("lib/python*/site-packages"))
    path = program(
        first
        + """
import sys, torch.distributed as dist, dabke.torch as hvd
hvd.init(settings={"CPU_OPERATIONS": "gloo"})
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=hvd.rank(), world_size=hvd.size())
tensor = torch.full((100_000,), 1.0 + hvd.rank())
for _ in range(3):
    assert hvd.allreduce(tensor).eq(1.5).all()
    dist.all_reduce(theirs := tensor.clone())
    assert theirs.eq(3).all()
try:
    hvd.allreduce(torch.ones(1 + hvd.rank()), name="uneven")
except hvd.DabkeError:
    sys.stdout.write(f"{dabke.__file__} {hvd.gloo_enabled()}\\n")
"""
    )
    done = ended(
        [installed / "dabkerun", "-np", "2", sys.executable, path, tmp_path],
        300,
        {"PYTHONPATH": str(packages)},
    )
    assert done.code == 0, done.output
    assert done.lines_of(1) == [f"{packages}/dabke/__init__.py True"], done.output
