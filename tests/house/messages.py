#!/usr/bin/env python3
"""Checks that the messages of dabkerun in docs/launcher.md are in its source. Placeholders for names and
numbers, and omitted parts, are not compared.

Usage: messages.py ROOT
"""

import pathlib
import re
import sys

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Placeholders: capitals, numbers and dots on the page, braces in the source. Messages are joined at colons.
HOLE = re.compile(r"\.\.\.|[:;] |\b[A-Z]{1,}\b(?!_)(?!-)|\b[A-Z]+(?:_[A-Z]+)+\b|\b\d+\b|\{[^}]*\}")
SHORTEST = 8


def literals_of(source):
    """Yields texts: literals with only white space between them are one text."""
    text, end = [], -1
    for found in LITERAL.finditer(source):
        if end >= 0 and source[end : found.start()].strip() == "":
            text[-1] += found[1]
        else:
            text.append(found[1])
        end = found.end()
    return text


def words_of(text):
    """Returns the words without marks, with one space between them."""
    return " ".join(re.sub(r"[`'\"\\]", "", text).split())


def rows_of(page):
    """Yields (the cause, the first line, the exit code)."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if (
            line.startswith("| ")
            and len(cells) == 3
            and not line.startswith("| ---")
            and cells[2] != "exit code"
        ):
            yield cells


def parts_of(text):
    for part in HOLE.split(words_of(text)):
        part = part.strip(" :;,.()/")
        if len(part) >= SHORTEST:
            yield part


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs" / "launcher.md").read_text(encoding="utf-8")
    source = [
        words_of(HOLE.sub("\x00", text))
        for folder in ("launcher", "runtime/base")
        for path in sorted((root / folder).rglob("*.cc")) + sorted((root / folder).rglob("*.h"))
        for text in literals_of(path.read_text(encoding="utf-8"))
    ]
    rows = list(rows_of(page))
    wrong = []
    compared = 0
    for what, said, _ in rows:
        parts = list(parts_of(said))
        compared += len(parts)
        wrong += [
            f"'{what}': dabkerun does not say '{part}'"
            for part in parts
            if not any(part in text for text in source)
        ]
    for name in re.findall(r"`([\w/]+\.(?:py|cc))", page):
        if not (root / name).exists() and not any((root / "tests/multiproc").rglob(name)):
            wrong.append(f"there is no test {name}")
    for line in wrong:
        print(f"docs/launcher.md: {line}")
    print(f"{compared} texts of {len(rows)} rows of docs/launcher.md compared")
    return 1 if wrong or compared < len(rows) // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
