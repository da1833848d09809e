"""The package itself: its types, its imports, its requirements."""

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[3] / "bindings" / "python" / "dabke"


def built_package():
    """The package's folder in the build, where the types of the compiled part lie beside the sources."""
    return Path(importlib.util.find_spec("dabke").origin).parent


def test_the_types_are_strict():
    pytest.importorskip("mypy")
    package = built_package()
    # The layer of a framework is checked against that framework, and left out where it is not installed.
    layers = {
        "torch": "/(torch/|distributed.py|autoload.py|lightning.py)",
        "tensorflow": "/tensorflow/",
        "jax": "/jax/",
        "keras": "/keras/",  # it imports the layers of its backends
    }
    all_backends = all(importlib.util.find_spec(framework) for framework in layers)
    excluded = [
        argument
        for framework, files in layers.items()
        if not importlib.util.find_spec(framework) or (framework == "keras" and not all_backends)
        for argument in ("--exclude", files)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "/dev/null", *excluded, str(package)],
        capture_output=True,
        text=True,
        cwd=package.parent,
    )
    assert done.returncode == 0, done.stdout


def test_the_types_of_the_compiled_part_are_those_that_it_has():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy.stubtest",
            "dabke._core",
            "--ignore-missing-stub",
            "--ignore-positional-only",
        ],
        capture_output=True,
        text=True,
    )
    # Only Python 3.12 has __buffer__.
    missing = [
        line
        for line in done.stdout.splitlines()
        if "is not present at runtime" in line and "__buffer__" not in line
    ]
    assert missing == []


def test_a_typed_program_passes_too(program):
    pytest.importorskip("mypy")
    path = program("""
        import dabke
        import numpy as np

        dabke.init(process_sets=[dabke.ProcessSet([0])], settings={"JOIN": "horovod"})
        mean = dabke.allreduce(np.ones(3), name="x", op=dabke.Average, process_set=dabke.global_process_set)
        print(mean.shape, dabke.rank() + dabke.size())
        handle: dabke.Handle = dabke.broadcast_async_(np.ones(3), root_rank=0)
        done: bool = dabke.poll(handle)
        results: list[object] = dabke.run(print, np=2)
        try:
            dabke.synchronize(handle)
        except dabke.HorovodInternalError as error:
            print(error.status)
        with dabke.annotate("step"):
            dabke.mark_step(1)
    """)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "/dev/null", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(built_package().parent)},
    )
    assert done.returncode == 0, done.stdout


def test_everything_of_the_compiled_part_says_what_it_is():
    import dabke

    types = [each for each in vars(dabke._core).values() if inspect.isclass(each)]
    own = [("_core", vars(dabke._core)), *((each.__name__, vars(each)) for each in types)]
    lacking = [f"{each.__name__}: a docstring" for each in types if not each.__doc__]
    for owner, members in own:
        for name, member in members.items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            signatures = getattr(function, "__nb_signature__", None)
            if isinstance(signatures, tuple) and not all(each[1] for each in signatures):
                lacking.append(f"{owner}.{name}")
    assert len(own) > 5 and lacking == []


def numbers_in_dabke_h(enum):
    """The enumerators of an enum of dabke.h, without its prefix, and their numbers."""
    text = (SOURCES.parents[2] / "bindings/c/include/dabke/dabke.h").read_text()
    body = re.search(rf"typedef enum {enum} {{(.*?)}} {enum};", text, re.DOTALL)[1]
    return {name: int(number) for name, number in re.findall(r"DABKE_(\w+) = (\d+)", body)}


def test_the_enums_are_those_of_dabke_h():
    import dabke

    assert {each.name: each.value for each in dabke.ReduceOp} == numbers_in_dabke_h("dabke_reduce_op")
    compressions = numbers_in_dabke_h("dabke_compression")
    assert sorted(each.value for each in dabke.Compression) == sorted(compressions.values())
    assert (
        dabke.Compression.fp16 == compressions["COMPRESSION_FLOAT16"]
        and dabke.Compression.default == compressions["COMPRESSION_DEFAULT"]
    )
    assert sorted(dabke._core.statuses().values()) == sorted(numbers_in_dabke_h("dabke_status").values())


def test_every_status_has_a_class():
    import dabke

    for name, status in dabke._core.statuses().items():
        assert name == "ok" or dabke.errors.from_status(status, "why").status == status, name


def test_importing_brings_no_framework(run):
    done = run(
        """
        import sys, dabke
        print([name for name in ("numpy", "torch", "tensorflow", "jax", "keras") if name in sys.modules])
    """,
        ranks=0,
    )
    assert done.output.strip() == "[]"


def test_it_works_without_numpy(run):
    done = run("""
        import sys
        sys.modules["numpy"] = None
        import array, dabke
        dabke.init()
        mine = array.array("f", [dabke.rank(), 1])
        print(dabke.allreduce(mine, op=dabke.Sum).tolist())
        print(dabke.allgather(mine).tolist())
        shared = dabke.alloc((2, 3), "float64")
        for i in range(2):
            for j in range(3):
                shared[i, j] = 1.0
        print(dabke.allreduce_(shared, op=dabke.Sum).tolist())
        print(dabke.broadcast_object({"rank": dabke.rank()}), dabke.allgather_object(dabke.rank()))
    """)
    assert done.code == 0, done.output
    assert done.lines_of(0) == [
        "[1.0, 2.0]",
        "[0.0, 1.0, 1.0, 1.0]",
        str([[2.0] * 3] * 2),
        "{'rank': 0} [0, 1]",
    ]


# Functions that raise nothing, with any arguments.
RAISE_NOTHING = (
    "annotate",
    "backend_built",
    "backend_enabled",
    "controller_built",
    "controller_enabled",
    "mark_step",
    "poll",
)


def public_functions(module):
    return {
        name: getattr(module, name) for name in module.__all__ if inspect.isfunction(getattr(module, name))
    }


def explained_arguments(functions, name):
    """The arguments that a function documents, with those of the functions to which its text refers."""
    text = functions[name].__doc__
    own = set(re.findall(r"^        (\w+): ", text.partition("Args:")[2], re.MULTILINE))
    others = re.findall(r"(?:those of|Starts what)\s+``(\w+)``", text.partition("Args:")[0])
    return own.union(
        *(explained_arguments(functions, each) for each in others if each in functions and each != name)
    )


@pytest.mark.every_variant
@pytest.mark.parametrize("module", ["dabke", "dabke.torch", "dabke.keras"])
def test_every_public_function_explains_its_arguments_result_and_errors(module):
    if module != "dabke":
        pytest.importorskip(module.rpartition(".")[2])
    functions = public_functions(importlib.import_module(module))
    assert len(functions) > 30
    lacking = []
    for name, function in functions.items():
        if not function.__doc__:
            lacking.append(f"{name}: a docstring")
            continue
        parameters = set(inspect.signature(function).parameters)
        lacking += [f"{name}: {each}" for each in sorted(parameters - explained_arguments(functions, name))]
        is_start = re.match(r"Starts what ``\w+`` does, of the same arguments?\b", function.__doc__)
        if (
            parameters
            and not is_start
            and "Raises:" not in function.__doc__
            and not re.search(r"[Ee]rrors", function.__doc__)
            and name not in RAISE_NOTHING
        ):
            lacking.append(f"{name}: what it raises")
    assert lacking == []


def test_a_folder_of_many_files_says_what_each_is():
    checked = 0
    for folder in {
        file.parent for root in (SOURCES, Path(__file__).parents[1]) for file in root.rglob("*.py")
    }:
        files = [each.name for each in folder.glob("*.py")]
        if len(files) > 10:
            text = (folder / "README.md").read_text()
            assert [name for name in files if f"`{name}`" not in text] == [], folder
            checked += 1
    assert checked >= 5


def test_every_public_name_is_in_the_documentation():
    import dabke

    text = (SOURCES.parents[2] / "docs" / "python.md").read_text()
    missing = [name for name in dabke.__all__ if f"`{name}" not in text and f"{name}`" not in text]
    assert missing == []


def test_every_python_file_is_as_ruff_formats_it():
    pytest.importorskip("ruff")
    sources = Path(__file__).resolve().parents[3]
    listed = subprocess.run(["git", "-C", sources, "ls-files"], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip(f"{sources} is not a checkout of git, which lists the project's own files")
    files = [name for name in listed.stdout.splitlines() if is_python(sources / name)]
    assert len(files) > 100
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", *files],
        cwd=sources,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def is_python(path):
    if path.suffix in (".py", ".pyi"):
        return True
    with path.open("rb") as file:
        return re.match(rb"#!.*python", file.readline(80)) is not None
