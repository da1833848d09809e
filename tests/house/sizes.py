#!/usr/bin/env python3
"""Checks that every class of the product has at most 400 lines in all its files together, and
every function at most 60.

A class is its body, from the line that names it to its last brace, and its members that are defined outside
the body, in any file. A nested class counts with the body of the outer one; its members outside count for the
nested class.

A function counts from the first line of its declaration to its last brace, with the lambdas and local classes
inside. A lambda that is the value of a constant is a function; a lambda in a list of values is not counted.
Comments and empty lines inside count, those before do not.

The check scans brackets and does not parse. It relies on the rules of .clang-format, which the test `format`
checks:
- a brace that opens the body of a function or a class follows a space
- a brace that initialises a member does not (`size_{0}`)
- access labels have a line of their own

Of #if and #else, the first part counts.

usage: sizes.py [--list] [ROOT]     --list: the ten largest classes and functions instead
"""

import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("runtime", "ops", "bindings", "launcher", "timeline_viewer")
SOURCES = (".cc", ".h", ".hpp", ".cpp", ".inc", ".cu")
MOST = {"class": 400, "function": 60}

# Pieces that are too large today, with their lines. They must be cut, and must not grow. A row that is no
# longer needed is an error, too.
KNOWN = {}  # (kind, name): lines


@dataclass
class Piece:
    """A class body, or a function with the class that it belongs to."""

    kind: str
    name: str  # with the names of the classes around it, without namespaces
    space: tuple  # the namespaces; an unnamed one has the name of its file
    owner: str  # the class of a member that is defined outside it; otherwise empty
    path: str
    line: int
    lines: int


LITERAL_OR_COMMENT = re.compile(
    r'R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|'
    r"(?<![0-9a-zA-Z_])\'(?:[^\'\\\n]|\\.)+\'|//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_directives(text):
    """Removes the preprocessor's lines, and all parts of a condition except the first."""
    out, skipped, depth = [], [], 0
    is_continued = False
    for line in text.split("\n"):
        word = re.match(r"\s*#\s*(\w+)", line)
        is_directive = is_continued or word is not None
        if word and not is_continued:
            if word[1] in ("if", "ifdef", "ifndef"):
                depth += 1
            elif word[1] in ("else", "elif") and depth not in skipped:
                skipped.append(depth)
            elif word[1] == "endif":
                skipped = [each for each in skipped if each != depth]
                depth -= 1
        is_continued = is_directive and line.endswith("\\")
        out.append(blank(line) if is_directive or skipped else line)
    return "\n".join(out)


def code_of(text):
    """Blanks everything that is not code. Lines and columns stay."""
    text = LITERAL_OR_COMMENT.sub(lambda found: blank(found[0]), text)
    text = without_directives(text)
    return re.sub(
        r"^\s*(?:public|private|protected):", lambda found: blank(found[0]), text, flags=re.MULTILINE
    )


def without_arguments(head):
    """Removes the text in <> and in (), and the brackets <>."""
    head = re.sub(r"\boperator\s*(\(\)|\[\]|[^\s\w(]+)", "operator_", head)
    head = head.replace("->", "  ").replace("<<", "  ")
    for pattern, stand_in in ((r"<[^<>]*>", ""), (r"\(([^()]|\(\))*\)", "\x00")):
        while (shorter := re.sub(pattern, stand_in, head)) != head:
            head = shorter
    head = head.replace("\x00", "()")
    return re.sub(r"\b(?:__attribute__|decltype|requires|noexcept)\s*\(\)", "", head)


CLASS = re.compile(
    r"(?:^|\s)(?:class|struct|union)\s+(?:[A-Z_]{3,}(?:\(\))?\s+|\[\[[^\]]*\]\]\s*|alignas\(\)\s*)*"
    r"([A-Za-z_]\w*(?:::\w+)*)\s*(?:final\s*)?(?::(?!:).*)?$",
    re.DOTALL,
)
FUNCTION = re.compile(r"((?:\w+\s*::\s*)*~?\w+)\s*\(\)")
LAMBDA = re.compile(r"(\w+)\s*=\s*\[")


def opened_by(head, before):
    """Returns the kind and the name of what a brace opens. `before` is the character before the brace."""
    if not before.isspace():
        return "other", ""
    shape = without_arguments(head).strip()
    if re.search(r"(?:^|\s)(?:inline\s+)?namespace\b", shape):
        return "namespace", (re.search(r"namespace\s+([\w:]+)", shape) or [None, ""])[1]
    if re.fullmatch(r"extern", shape):
        return "namespace", "extern"
    if re.search(r"(?:^|\s)enum\b", shape):
        return "other", ""
    if (found := CLASS.search(shape)) and "()" not in shape.split(":")[0].replace("alignas()", ""):
        return "class", found[1]
    if found := LAMBDA.search(shape):
        return "function", found[1]
    if "=" in re.sub(r"operator_", "", shape):
        return "other", ""
    if found := FUNCTION.search(shape):
        return "function", re.sub(r"\s", "", found[1])
    return "other", ""


def pieces_of(path, text):
    """The classes and functions of one file."""
    code = code_of(text)
    pieces, open_braces = [], []  # each one's kind, name and line
    begin, round_depth = 0, 0  # the start of the head before the next brace
    for place, mark in ((found.start(), found[0]) for found in re.finditer(r"[{}();]", code)):
        inside = open_braces[-1][0] if open_braces else "namespace"
        if mark == "{":
            head = code[begin:place]
            kind, name = (
                ("other", "")
                if inside in ("function", "other") or round_depth
                else opened_by(head, code[place - 1 : place])
            )
            first = begin + len(head) - len(head.lstrip())
            open_braces.append((kind, name, code.count("\n", 0, first) + 1, begin, round_depth))
            if kind != "other":
                begin, round_depth = place + 1, 0
        elif mark == "}" and open_braces:
            kind, name, line, head_begin, round_depth = open_braces.pop()
            if kind in ("class", "function"):
                outer = [each[1] for each in open_braces if each[0] == "class"]
                owner, _, _ = name.rpartition("::") if kind == "function" and not outer else ("", "", "")
                space = tuple(
                    part or path
                    for each in open_braces
                    if each[0] == "namespace"
                    for part in each[1].split("::")
                )
                pieces.append(
                    Piece(
                        kind,
                        "::".join(outer + [name]),
                        space,
                        owner,
                        path,
                        line,
                        code.count("\n", 0, place) + 2 - line,
                    )
                )
            # After a member's initialiser, the head goes on. After a body, or the value of a variable, the
            # next head begins.
            begin = head_begin if kind == "other" else place + 1
        elif mark == ";" and not round_depth:
            begin = place + 1
        elif mark in "()" and inside not in ("function", "other"):
            round_depth += 1 if mark == "(" else -1
    if open_braces:
        raise ValueError(f"{path}:{open_braces[-1][2]}: this brace does not close, by the count of sizes.py")
    return pieces


def owner_of(piece, classes):
    """Returns the class of a member that is defined outside it, or None for a function of a namespace."""
    spaces = [piece.space[:size] for size in range(len(piece.space), -1, -1)]
    for space in spaces:
        for candidate in (space, space + (piece.path,)):
            if (candidate, piece.owner) in classes:
                return candidate, piece.owner
    return None


@dataclass
class Size:
    kind: str
    name: str
    path: str
    line: int
    lines: int


def sizes_of(pieces):
    """Returns every class with all that belongs to it, and every function, the largest first."""
    classes = {}
    for piece in pieces:
        if piece.kind == "class":
            classes.setdefault(
                (piece.space, piece.name), Size("class", piece.name, piece.path, piece.line, 0)
            ).lines += piece.lines
    sizes = []
    for piece in pieces:
        if piece.kind != "function":
            continue
        sizes.append(Size("function", piece.name, piece.path, piece.line, piece.lines))
        if piece.owner and (owner := owner_of(piece, classes)):
            classes[owner].lines += piece.lines
    return sorted(sizes + list(classes.values()), key=lambda size: (-size.lines, size.path, size.line))


def faults_in(sizes, known):
    """Returns pieces that are too large and not in KNOWN, and rows of KNOWN that are no longer needed."""
    faults, largest = [], defaultdict(int)
    for size in sizes:
        most = max(MOST[size.kind], known.get((size.kind, size.name), 0))
        largest[size.kind, size.name] = max(largest[size.kind, size.name], size.lines)
        if size.lines > most:
            faults.append(
                f"{size.path}:{size.line}: {size.kind} {size.name} has {size.lines} lines, "
                f"{most} are the most: cut it by its ideas"
            )
    for (kind, name), lines in known.items():
        if largest[kind, name] <= MOST[kind]:
            faults.append(
                f"the row of {kind} {name} ({lines}) in KNOWN is not needed any more: "
                f"{largest[kind, name]} lines are left of it"
            )
    return faults


def main():
    arguments = [each for each in sys.argv[1:] if each != "--list"]
    root = Path(arguments[0] if arguments else ".")
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", *ROOMS], check=True, capture_output=True, text=True
    ).stdout
    paths = [path for path in listed.split("\0") if path.endswith(SOURCES)]
    sizes = sizes_of(
        [piece for path in paths for piece in pieces_of(path, (root / path).read_text(encoding="utf-8"))]
    )
    if "--list" in sys.argv:
        for kind in MOST:
            print(f"the largest of kind {kind}:")
            for size in [each for each in sizes if each.kind == kind][:10]:
                print(f"  {size.lines:4}  {size.name}  {size.path}:{size.line}")
        return
    counts = {kind: sum(size.kind == kind for size in sizes) for kind in MOST}
    if counts["class"] < 300 or counts["function"] < 2000:
        sys.exit(f"only {counts} were seen: the search is broken")
    faults = faults_in(sizes, KNOWN)
    print(
        "\n".join(faults)
        or f"{counts['class']} classes and {counts['function']} functions, "
        f"{len(KNOWN)} of them larger than they should be"
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
