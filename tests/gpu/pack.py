#!/usr/bin/env python3
"""Puts everything that tests/gpu/run.sh needs on a CUDA machine into one folder, for a machine with NCCL,
driver and Python.

- the programs and the module for NCCL, with the libraries that they need except those of libc, all stripped
- the scripts
- the Python package, if `./quickstart test python` has built it

The package is for the Python of its build, unless --python-include names the headers of another Python.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_BYTES = 64 << 20
# Libraries of libc must be the machine's own, to fit its kernel and its loader.
OF_LIBC = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|nss_.*|anl|mvec))\.so")
SCRIPTS = ["run.sh", "pack.py", "steps.py", "ways.py", "torch_job.py"]


def libraries_of(file):
    """Returns {name: path} of all libraries that the loader loads for the file."""
    said = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)
    if missing:
        raise SystemExit(f"{file} needs {', '.join(missing)}, which is not here")
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE))
    return {name: path for name, path in found.items() if not OF_LIBC.match(name)}


def strip(file):
    if subprocess.run(["strip", "--strip-unneeded", file], check=False).returncode != 0:
        raise SystemExit(f"{file} could not be stripped")


def put(file, folder, libraries=None):
    """Copies the file, stripped, and the libraries that it needs into `libraries`."""
    os.makedirs(folder, exist_ok=True)
    copy = os.path.join(folder, os.path.basename(file))
    shutil.copy(file, copy)  # copies the target of a link
    strip(copy)
    for name, path in libraries_of(file).items() if libraries else ():
        target = os.path.join(libraries, name)
        os.makedirs(libraries, exist_ok=True)
        if not os.path.exists(target):
            shutil.copy(path, target)
            strip(target)


def compile_core(build, include, library, folder):
    """Compiles the package's core for the Python of these headers, with the commands of the build. Returns
    its path."""
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise SystemExit(
            f"there is no Python.h in {include}: "
            "--python-include names the folder that has it, such as python3.12"
        )
    with open(os.path.join(include, "patchlevel.h"), encoding="utf-8") as file:
        major, minor = re.findall(r"^#define PY_M(?:AJOR|INOR)_VERSION\s+(\d+)", file.read(), re.MULTILINE)
    core = os.path.join(folder, f"_core.cpython-{major}{minor}-x86_64-linux-gnu.so")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        units = [
            unit
            for unit in json.load(file)
            if re.search(r"python/dabke/(_core\.|libnanobind\.).*\.o$", unit["output"])
        ]
    objects = []
    for unit in units:
        objects.append(os.path.join(folder, f"{len(objects)}.o"))
        command = re.sub(r"-I\S*/include/python3\S*", f"-I{shlex.quote(include)}", unit["command"])
        command = command.replace(f"-o {unit['output']}", f"-o {shlex.quote(objects[-1])}")
        print(f"Compiling for Python {major}.{minor}: {len(objects)} of {len(units)}", file=sys.stderr)
        subprocess.run(command, shell=True, cwd=unit["directory"], check=True)
    # For ldd here, the library's folder; on the CUDA machine, LD_LIBRARY_PATH names the folder.
    subprocess.run(
        ["g++", "-shared", f"-Wl,-rpath,{os.path.dirname(library)}", *objects, library, "-o", core],
        check=True,
    )
    return core


def put_python(build, include, folder):
    """Copies the package and its library, which belong to another build and so to another module."""
    package = os.path.join(build, "bindings", "python", "dabke")
    (core,) = [
        os.path.join(package, name)
        for name in os.listdir(package)
        if name.startswith("_core.") and name.endswith(".so")
    ]
    ignored = shutil.ignore_patterns(
        "*.p", "meson*", "__pycache__", "*.so", "*.a", "Makefile", "compile_commands.json"
    )
    shutil.copytree(
        package, os.path.join(folder, "dabke"), symlinks=False, ignore=ignored, dirs_exist_ok=True
    )
    with tempfile.TemporaryDirectory(prefix="dabke-pack-") as place:
        if include:
            core = compile_core(build, include, os.path.join(build, "bindings", "c", "libdabke.so"), place)
        put(core, os.path.join(folder, "dabke"), os.path.join(folder, "lib"))
    put(
        os.path.join(build, "bindings", "c", "dabke", "nccl.so"),
        os.path.join(folder, "lib", "dabke"),
        os.path.join(folder, "lib"),
    )


def bytes_in(folder):
    return sum(
        os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names
    )


def main():
    parser = argparse.ArgumentParser(
        prog="run.sh pack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = os.path.dirname(os.path.dirname(HERE))
    parser.add_argument("folder", nargs="?", default=os.path.join(root, "build-gpu"))
    parser.add_argument(
        "--build", default=os.path.join(root, "build"), help="a build with -Dcuda and -Dtests"
    )
    parser.add_argument("--python-build", default=os.path.join(root, "build-python"))
    parser.add_argument(
        "--python-include", help="the folder of Python.h, where that machine's Python is another version"
    )
    options = parser.parse_args()
    include = options.python_include and os.path.abspath(options.python_include)
    folder = os.path.abspath(options.folder)
    worker = os.path.join(options.build, "tests", "gpu", "gpu_worker")
    if not os.path.exists(worker):
        raise SystemExit(
            f"there is no {worker}: "
            "build with -Dcuda=enabled -Dtests=enabled, as ./quickstart test default does"
        )
    if os.path.exists(folder) and not os.path.exists(os.path.join(folder, "steps.py")):
        raise SystemExit(f"{folder} is there, and is none that this has made")
    shutil.rmtree(folder, ignore_errors=True)
    libraries = os.path.join(folder, "lib")
    put(worker, os.path.join(folder, "bin"), libraries)
    put(os.path.join(options.build, "launcher", "dabkerun"), os.path.join(folder, "bin"), libraries)
    put(
        os.path.join(options.build, "bindings", "c", "dabke", "nccl.so"),
        os.path.join(libraries, "dabke"),
        libraries,
    )
    doubles = os.path.join(options.build, "tests", "fake_cuda")
    for name in ("libcuda.so.1", "libnccl.so.2"):
        put(os.path.join(doubles, name), os.path.join(folder, "double"))
    for name in SCRIPTS:
        shutil.copy(os.path.join(HERE, name), os.path.join(folder, name))
    if os.path.exists(os.path.join(options.python_build, "bindings", "python", "dabke")):
        put_python(options.python_build, include, os.path.join(folder, "python"))
    else:
        print(f"Without the Python package: there is no {options.python_build}", file=sys.stderr)
    size = bytes_in(folder)
    if size > MOST_BYTES:
        raise SystemExit(f"{folder} has {size >> 20} MiB, and more than {MOST_BYTES >> 20} do not travel")
    print(f"{folder}: {size / (1 << 20):.1f} MiB")


if __name__ == "__main__":
    main()
