#!/usr/bin/env python3
"""Checks the imports of the Python package against its layers, by its syntax trees.

1. Only its own layer imports a framework: torch in dabke/torch, in any function.
2. No module outside such a layer imports it, except the public names that represent a part of it, and
   Keras's layer, which runs over the others.
3. No path along the imports at the top of modules leads from a module back to it.
4. A type that may be None is written `X | None`: no module imports from typing a name for which Python 3.10
   has a sign.

usage: python_imports.py [ROOT]
"""

import ast
import subprocess
import sys
from pathlib import Path

from arrows import circle_in

PACKAGE = "dabke"
FOLDER = "bindings/python"
# The framework's layer is dabke.<framework>.
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "lightning")
STAND_FOR = {
    "dabke.distributed": "dabke.torch",
    "dabke.autoload": "dabke.distributed",
    "dabke.tensorflow.keras": "dabke.keras",
}
# Layers over others, each of which they may import.
ABOVE = {"dabke.keras": ("torch", "tensorflow", "jax"), "dabke.lightning": ("torch",)}
OLD_TYPES = {
    "Optional",
    "Union",
    "Dict",
    "List",
    "Tuple",
    "Set",
    "FrozenSet",
    "Type",
    "Callable",
    "Sequence",
    "Iterable",
    "Iterator",
    "Mapping",
}


def module_name(path):
    """Returns dabke.torch.ops for dabke/torch/ops.py."""
    parts = list(Path(path).relative_to(FOLDER).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(tree, module, is_package):
    """Yields (module, names, line) of each import, at any depth. Relative imports are resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            above = base[: len(base) - node.level + is_package] if node.level else []
            yield (
                ".".join(above + ([node.module] if node.module else [])),
                [alias.name for alias in node.names],
                node.lineno,
            )


def is_within(module, layer):
    return module == layer or module.startswith(layer + ".")


def faults_of(module, imports):
    for name, names, line in imports:
        whole = [name, *(f"{name}.{each}" for each in names)]
        for framework in FRAMEWORKS:
            layer = f"{PACKAGE}.{framework}"
            if is_within(module, layer):
                continue
            if any(is_within(module, upper) and framework in below for upper, below in ABOVE.items()):
                continue
            if is_within(name, framework):
                yield line, f"{module} imports {name}; only {layer} may"
            if any(is_within(each, layer) for each in whole) and STAND_FOR.get(module) != layer:
                yield line, f"{module} imports {layer}, a layer above it"
        if name == "typing":
            for old in sorted(OLD_TYPES & set(names)):
                yield line, f"typing.{old}: Python 3.10 has a sign or a class of its own for it"


def arrows_of(tree, module, is_package, modules):
    """Yields the modules of the package that are imported while this module is imported."""
    top = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
    for name, names, _ in imported_by(top, module, is_package):
        to = {f"{name}.{each}" if f"{name}.{each}" in modules else name for each in names} or {name}
        yield from to & modules - {module}


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", f"{FOLDER}/*.py"], check=True, capture_output=True, text=True
    )
    paths = [path for path in listed.stdout.split("\0") if path]
    modules = {module_name(path) for path in paths} | {f"{PACKAGE}._core"}  # _core is compiled
    faults, seen, checked, arrows = [], 0, 0, {}
    for path in paths:
        module, is_package = module_name(path), Path(path).name == "__init__.py"
        tree = ast.parse((root / path).read_text())
        imports = list(imported_by(tree, module, is_package))
        arrows[module] = set(arrows_of(tree, module, is_package, modules))
        seen += any(name == "torch" for name, _, _ in imports)
        checked += len(imports)
        if is_within(module, PACKAGE):
            faults += [f"{path}:{line}: {text}" for line, text in faults_of(module, imports)]
        else:  # the alias of Horovod's names is above all layers
            faults += [
                f"{path}:{line}: {text}"
                for line, text in faults_of(module, imports)
                if text.startswith("typing.")
            ]
    if circle := circle_in(arrows):
        faults.append("a circle: " + " -> ".join(circle))
    if checked < 200 or seen < 15:
        faults.append(
            f"only {checked} imports were seen, those of torch in {seen} modules: the search is broken"
        )
    print("\n".join(faults) or f"{checked} imports of the Python package follow its layers")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
