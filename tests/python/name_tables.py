"""The tables of names in docs/python, compared with the names, arguments and defaults that a module has."""

import inspect
import re
from pathlib import Path

SHORT = {"SC": "prescale_factor=1.0, postscale_factor=1.0", "PS": "process_set=global_process_set"}
PAGES = Path(__file__).resolve().parents[2] / "docs" / "python"


class NameTable:
    """A table with the columns name, signature and differences.

    Args:
        page: the file in docs/python.
        heading: the heading above the table.
        module: the module that has the names.
    """

    def __init__(self, page, heading, module):
        self._module = module
        compression = getattr(module, "Compression", None)
        self._values = {
            "Compression.none": getattr(compression, "none", object()),
            "global_process_set": module.global_process_set,
        }
        self.rows = list(rows_of((PAGES / page).read_text().split(heading)[1]))
        self.names = {name for name, _, _ in self.rows}

    def named(self, path):
        """Returns the module's object at a path such as elastic.run."""
        found = self._module
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def check(self, row):
        """Asserts that a row has the arguments. Those that only Dabke has are among the differences."""
        name, wanted, differences = row
        thing = self.named(name)
        if wanted is None:
            return
        for short, text in SHORT.items():
            wanted = re.sub(rf"\b{short}\b", text, wanted)
        function = thing.__init__ if inspect.isclass(thing) else thing
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
        ours = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
        theirs = ", ".join(self._text_of(each) for each in parameters if each.name not in ours)
        assert f"({theirs})" == wanted, name
        for argument in ours:
            assert f"`{argument}`" in differences, name

    def _text_of(self, parameter):
        default = parameter.default
        if default is parameter.empty:
            return f"**{parameter.name}" if parameter.kind == parameter.VAR_KEYWORD else parameter.name
        for name, value in self._values.items():
            if default is value:
                return f"{parameter.name}={name}"
        return f"{parameter.name}={default.name.title() if hasattr(default, 'name') else repr(default)}"


def rows_of(table):
    """Yields (name, signature or None, differences)."""
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 3:
            continue
        signature = re.fullmatch(r"`(\(.*\))`", cells[1])
        for name in re.findall(r"`([\w.]+)`", cells[0]):
            yield name, signature and signature[1], cells[2]
