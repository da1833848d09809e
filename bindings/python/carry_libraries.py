#!/usr/bin/env python3
"""Puts the library, dabkerun, the modules, and the shared libraries that they need into a wheel's folders.

    carry_libraries.py --patchelf PATCHELF --library LIBDABKE --programs PROGRAM... --output DIRECTORY
                       --modules MODULE...

1. DIRECTORY/lib gets libdabke and the libraries that it needs, DIRECTORY/lib/dabke the modules, DIRECTORY/bin
   dabkerun. They find each other by relative paths. Libraries that every system of the wheel's age has are
   not carried: the C and C++ libraries, and OpenSSL, which the system updates. MPI is not carried either: it
   must be the MPI that starts the user's jobs.
2. A carried library gets a file name of its own. So the loader never confuses it with a framework's copy of
   the same library.
3. C++ libraries that frameworks bring, too, get symbols of their own (PyTorch has its own gloo and fmt). So
   their symbols cannot meet ours. This holds even if a program loads one of them globally, and for symbols
   that are unique in the process.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Libraries that are not carried. Only the modules need libmpi and its libraries, and the modules are not
# searched.
SYSTEM = re.compile(
    r"^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+|libcrypto)[.-]"
)
# A mangled name in one of these namespaces, or with one of their types.
RENAMED = re.compile(r"(?:4gloo|3fmt|6spdlog|3hwy)(?=[^0-9a-z_]|\d)")
SUFFIX = "_of_dabke"


def output_of(*command):
    return subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True).stdout


class Carrier:
    def __init__(self, patchelf, output):
        self.patchelf = patchelf
        self.lib, self.bin = output / "lib", output / "bin"
        for folder in (self.lib, self.bin):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.carried = {}  # the name by which a library is needed: its name in the wheel

    def patch(self, *arguments):
        output_of(self.patchelf, *arguments)

    def copy(self, source, target):
        shutil.copyfile(source, target)
        target.chmod(0o755)
        return target

    def needed_libraries(self, file):
        """Returns {name: path} of the libraries to carry that `file` needs, directly or not."""
        found = re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", file), re.MULTILINE)
        missing = re.findall(r"^\s*(\S+) => not found", output_of("ldd", file), re.MULTILINE)
        if missing:
            raise SystemExit(f"{file} needs {', '.join(missing)}, but the loader cannot find it")
        return {
            name: path for name, path in found if not SYSTEM.match(name) and not name.startswith("libdabke")
        }

    def carry(self, libraries):
        for name, path in libraries.items():
            if name in self.carried:
                continue
            stem, _, version = name.partition(".so")
            self.carried[name] = f"{stem}-dabke.so{version}"
            copy = self.copy(path, self.lib / self.carried[name])
            self.patch("--set-soname", self.carried[name], copy)

    def point_to_carried(self, file, origin):
        """Makes `file` find its libraries at `origin`, relative to its own place."""
        replacements = [
            argument for old, new in self.carried.items() for argument in ("--replace-needed", old, new)
        ]
        self.patch("--set-rpath", origin, *replacements, file)

    def rename_symbols(self, files):
        names = set()
        for file in files:
            listed = output_of("nm", "-D", "--format=posix", "--without-symbol-versions", file)
            names |= {line.split()[0] for line in listed.splitlines()}
        renamed = sorted(name for name in names if name.startswith("_Z") and RENAMED.search(name))
        with tempfile.NamedTemporaryFile("w", suffix=".symbols") as table:
            table.writelines(f"{name} {name}{SUFFIX}\n" for name in renamed)
            table.flush()
            for file in files:
                self.patch("--rename-dynamic-symbols", table.name, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patchelf", required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--programs", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--modules", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()

    carrier = Carrier(arguments.patchelf, arguments.output)
    library = carrier.copy(arguments.library, carrier.lib / "libdabke.so.0")
    programs = [carrier.copy(program, carrier.bin / program.name) for program in arguments.programs]
    module_folder = carrier.lib / "dabke"
    module_folder.mkdir()
    modules = [carrier.copy(module, module_folder / module.name) for module in arguments.modules]
    for file in (arguments.library, *arguments.programs):
        carrier.carry(carrier.needed_libraries(file))

    libraries = [carrier.lib / name for name in carrier.carried.values()]
    for file in (library, *libraries):
        carrier.point_to_carried(file, "$ORIGIN")
    for program in programs:
        carrier.point_to_carried(program, "$ORIGIN/../lib")
    for module in modules:
        carrier.point_to_carried(module, "$ORIGIN/..")
    carrier.rename_symbols([library, *programs, *modules, *libraries])


if __name__ == "__main__":
    main()
