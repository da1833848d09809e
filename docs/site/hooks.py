"""Hooks of mkdocs: reference pages made from tables of the sources, and pages for linked source files."""

import ast
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parents[1]
DOCS = SOURCES / "docs"
sys.path.insert(0, str(HERE))
import doxygen_pages  # noqa: E402

NETWORK_WORKER = "https://unpkg.com/iframe-worker/shim"
FILE_WORKER = "assets/file_worker.js"
LINK = re.compile(r"(?<!\!)(\[[^\]]*\]\()([^)\s]+)(\))")
LANGUAGES = {
    ".cc": "c++",
    ".h": "c++",
    ".hpp": "c++",
    ".c": "c",
    ".py": "python",
    ".js": "javascript",
    ".sh": "sh",
}


def on_files(files, config):
    pages = {
        "reference/c.md": doxygen_pages.c_page,
        "reference/cpp.md": doxygen_pages.cpp_page,
        "reference/flags.md": flags_page,
        "reference/statuses.md": statuses_page,
        "reference/events.md": events_page,
    }
    for path, make in pages.items():
        files.append(File.generated(config, path, content=make()))
    for asset in ("file_worker.js", "search_dashes.js", "tables.css"):
        text = (HERE / asset).read_text(encoding="utf-8")
        files.append(File.generated(config, f"assets/{asset}", content=text))
    add_linked_sources(files, config)
    return files


def on_post_page(output, page, config):
    """The theme would load a stand-in for Worker from the network; the site has its own."""
    return output.replace(NETWORK_WORKER, get_relative_url(FILE_WORKER, page.url))


def on_post_template(output, template_name, config):
    return output.replace(NETWORK_WORKER, FILE_WORKER)


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri == "configuration.md":
        markdown = settings_page(markdown)
    return with_links_into_the_site(markdown, page.file.src_uri)


# ---- files of the repository that a page links to ----


def outside_of_docs(target, page):
    """The file of the repository that a link of a page leads to, where it lies outside of docs."""
    path = target.split("#")[0]
    if not path or re.match(r"[a-z]+:", path):
        return None
    base = page.removeprefix("source/") if page.startswith("source/") else "docs/" + page
    base = base.removesuffix(".md") if page.startswith("source/") and not base.endswith("README.md") else base
    found = posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
    if found.startswith("docs/") and not found.startswith("docs/site/"):
        return None if not page.startswith("source/") else found
    return found if (SOURCES / found).exists() else None


def page_of(source):
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    if (SOURCES / source).is_dir():
        source = posixpath.join(source, "README.md")
    return f"source/{source}" + ("" if source.endswith(".md") else ".md")


def with_links_into_the_site(markdown, page):
    def leads(found):
        outside = outside_of_docs(found[2], page)
        if outside is None:
            return found[0]
        anchor = found[2][len(found[2].split("#")[0]) :]
        to = posixpath.relpath(page_of(outside), posixpath.dirname(page) or ".")
        return found[1] + to + anchor + found[3]

    return LINK.sub(leads, markdown)


def add_linked_sources(files, config):
    """Adds a page for each linked file outside of docs, and for those that its own links lead to."""
    waiting = [file for file in files if file.src_uri.endswith(".md")]
    known = {file.src_uri for file in waiting}
    while waiting:
        file = waiting.pop()
        for found in LINK.finditer(file.content_string):
            outside = outside_of_docs(found[2], file.src_uri)
            if outside is None or page_of(outside) in known or outside.startswith("docs/"):
                continue
            path = SOURCES / outside
            path = path / "README.md" if path.is_dir() else path
            if not path.exists():
                raise SystemExit(f"{file.src_uri}: the link {found[2]!r} leads to nothing")
            known.add(page_of(outside))
            text = path.read_text(encoding="utf-8")
            if path.suffix != ".md":
                language = LANGUAGES.get(path.suffix, "text")
                text = f"# {outside}\n\n````{language}\n{text}\n````\n"
            made = File.generated(config, page_of(outside), content=text)
            made.inclusion = type(made.inclusion).NOT_IN_NAV
            files.append(made)
            if path.suffix == ".md":
                waiting.append(made)


# ---- pages made from tables ----


def flags_page():
    """The text of dabkerun --help all, which a test holds equal to this file."""
    text = (SOURCES / "tests/golden/dabkerun-help.txt").read_text(encoding="utf-8")
    lines = ["# Flags of dabkerun", "", "The text of `dabkerun --help all`, by topic.", ""]
    for part in re.split(r"\n(?=[A-Z][^\n]*:\n  -)", text):
        head, _, body = part.partition("\n")
        if not body.startswith("  -"):
            lines += ["```text", part.strip(), "```", ""]
            continue
        flags, _, rest = body.partition("\n\n")
        lines += [f"## {head.rstrip(':').split(' (')[0]}", ""]
        for entry in re.split(r"\n(?=  -)", flags):
            names, _, description = entry.partition("\n")
            lines += [f"`{names.strip()}`", "", *flag_description(description), ""]
        lines += ["```text", rest.strip(), "```", ""] if rest.strip() else []
    return "\n".join(lines)


def flag_description(text):
    words = " ".join(text.split())
    return [re.sub(r"([*_<>\[\]|])", r"\\\1", words)]


def settings_page(markdown):
    """The table of settings as one section each, which the search can lead to."""
    intro, _, table = markdown.partition("| variable |")
    lines = [intro]
    for row in table.split("\n")[2:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
        if len(cells) != 6:
            continue
        variable, also, flag, default, accepts, meaning = cells
        facts = [f"Flag {flag}", f"default {default}", f"accepts {accepts}"] + (
            [f"also read: {also}"] if also else []
        )
        lines += [f"## {variable}", "", meaning, "", "; ".join(facts) + ".", ""]
    return "\n".join(lines)


def statuses_page():
    rows = re.findall(
        r'X\((\w+), "([^"]*)"\)', (SOURCES / "runtime/base/status.h").read_text(encoding="utf-8")
    )
    exceptions = dict(exceptions_by_status())
    lines = [
        "# Statuses and exceptions",
        "",
        "Every function of the C API that can fail returns a `dabke_status`. Python raises the exception",
        "beside it. All of them are a `dabke.DabkeError`, and `dabke.errors` has their names. The text of an",
        "error names the collective, the tensor and the rank, what came, what was wanted, and what to do.",
        "",
        "| number | C | meaning | Python |",
        "| --- | --- | --- | --- |",
    ]
    for number, (name, meaning) in enumerate(rows):
        spelled = f"DABKE_{'' if number < 2 else 'ERROR_'}{name.upper()}"
        lines.append(f"| {number} | `{spelled}` | {meaning} | {exceptions.get(name, '')} |")
    return "\n".join(lines) + "\n"


def exceptions_by_status():
    tree = ast.parse((SOURCES / "bindings/python/dabke/errors.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name == "DabkeError":
            continue
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript):
                bases = ", ".join(
                    f"`{ast.unparse(base)}`" for base in node.bases if ast.unparse(base) != "DabkeError"
                )
                yield (
                    ast.literal_eval(statement.value.slice),
                    f"`{node.name}`" + (f" (a {bases})" if bases else ""),
                )


def events_page():
    source = (SOURCES / "runtime/timeline/event_names.h").read_text(encoding="utf-8")
    events, arguments = source.split("#define DABKE_EVENT_ARGUMENTS")
    lines = [
        "# Timeline events",
        "",
        "The events that Dabke writes, besides collectives, names of tensors and the steps of backends.",
        "[Merged trace](timeline-trace.md) explains those of all ranks,",
        "[Timeline in Horovod's form](timeline-horovod.md) those of Horovod's form.",
        "",
    ]
    for title, text in (("Events", events), ("Arguments of events", arguments.split("#define")[0])):
        lines += [f"## {title}", "", "| name | all ranks | Horovod |", "| --- | --- | --- |"]
        for name, shapes in re.findall(r'X\(\w+,\s+"([^"]+)",\s+([\w |]+)\)', text):
            lines.append(f"| `{name}` | {yes('kAllRanks' in shapes)} | {yes('kHorovod' in shapes)} |")
        lines.append("")
    return "\n".join(lines)


def yes(holds):
    return "yes" if holds else ""
