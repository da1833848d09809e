#!/usr/bin/env python3
"""Comments, docstrings, pages and printed texts are written in plain English.

Four rules are checked:

- A comment begins with its noun ("start").
- No line is longer than 110 columns ("line").
- No sentence has more than 30 words ("sentence").
- No word of the old dialect is used ("dialect").

Exceptions: rows of Markdown tables and words that cannot be broken may be long. So may lines of programs that
Python tests write. Golden files, data and the corpus of the fuzz targets are not read.

Usage: prose.py ROOT [--count] [PATH...]

PATH is a file or folder below ROOT. --count prints a table of faults by folder.
"""

import argparse
import ast
import bisect
import collections
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tokenize

COLUMNS = 110
WORDS = 30

# A comment that begins with one of these describes a thing without naming it first.
HEADLESS = (
    "As|For what|For whom|It|Its|Of|Such|That|Their|They|Those|These|What|Whatever|Where|Wherever|Whether"
    "|Which|Whichever|Who|Whoever|Whom|Whose"
).split("|")

# The old dialect: a pattern, and the words to use instead. Machines send, wait, fail, return and hold.
DIALECT = {
    r"\balike\b": "symmetric, equal, the same",
    r"\b(?:[Tt]ells?|[Tt]old|[Tt]elling)\b(?! apart)": "sends, reports, notifies, shows",
    r"\b(?:[Ss]ays|[Ss]aid|[Ss]aying)\b": "reports, states, prints, documents",
    r"\b[Hh](?:ears?|eard)\b": "receives",
    r"\bknows\b": "has, holds, stores, was given",
    r"\blook(?:s|ed) (?:at|for|into|after)\b": "reads, checks, searches",
    r"(?:^|[.;:,] |\b(?:and|to|by|for|of|from|with|than|what) )[Ww]ho(?:ever)? "
    r"(?:is|are|has|have|does|comes|waits|calls|was|gets|wants|asks|reads|owns|holds|uses)\b": "a noun",
    r"(?<![Tt]here )\b(?:is|are|was) no (?!(?:longer|more|less|later|earlier|larger|smaller|slower|faster)\b)"
    r"[a-z]": "is not a",
    r"\bstands? in for\b": "replaces, represents",
    r"\bby the mean\b": "on average",
    r"\b(?:comes?|came) to (?:nothing|the end|an end)\b": "finishes",
    r"\b(?:goes|go) before\b": "overrides, takes precedence over",
    r"\bis well[.,;]": "is not an error",
}

TOKEN = re.compile(
    r'''R"(?P<delimiter>[^(\s]{0,16})\((?P<raw>.*?)\)(?P=delimiter)"'''
    r'''|"(?P<text>(?:\\.|[^"\\\n])*)"'''
    r"""|'(?:\\.|[^'\\\n])+'"""
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.S,
)
PRODUCT = ("bindings", "launcher", "ops", "runtime", "timeline_viewer")
CODE = (".cc", ".h", ".c", ".hpp", ".cu", ".cuh", ".js")
HASH = (".build", ".sh", ".txt", ".toml", ".yml", ".ini", ".in", ".cfg")


@dataclasses.dataclass
class Fault:
    path: str
    line: int
    rule: str
    text: str


@dataclasses.dataclass
class Comment:
    """One line of a comment. `goes_on` and `is_open` are those of /* */ and of // or #."""

    line: int
    column: int
    text: str
    alone: bool  # nothing but space is before it
    goes_on: bool = False  # it is a further line of one comment
    is_open: bool = True  # a comment below it can continue it


@dataclasses.dataclass
class Block:
    """A run of lines that is read as one text. `lines` holds pairs of a line's number and its words."""

    lines: list
    opens_code: bool = True  # whether the first rule holds for it


def tokens(source):
    """The comments and literals of C, C++ and JavaScript, as (line, column, match)."""
    starts = [0] + [found.end() for found in re.finditer("\n", source)]
    for found in TOKEN.finditer(source):
        line = bisect.bisect_right(starts, found.start()) - 1
        yield line + 1, found.start() - starts[line], found


def code_comments(source):
    for line, column, found in tokens(source):
        text = found["comment"]
        if text is None:
            continue
        alone = source[found.start() - column : found.start()].strip() == ""
        if text.startswith("//"):
            yield Comment(line, column, re.sub(r"^//+[!<]?", "", text), alone)
            continue
        for number, part in enumerate(text[2:-2].split("\n")):
            part = re.sub(r"^\s*\*+!?(?= |$)|^[*!<]+", "", part)
            yield Comment(line + number, column, part, alone or number > 0, goes_on=number > 0, is_open=False)


def hash_comments(source):
    for number, line in enumerate(source.split("\n"), 1):
        alone = re.match(r"^(\s*)#(?!!)(.*)$", line)
        behind = re.match(r"^(.*?\S)  # (.*)$", line)
        if alone:
            yield Comment(number, len(alone[1]), alone[2], True)
        elif behind and behind[1].count("'") % 2 == 0 and behind[1].count('"') % 2 == 0:
            yield Comment(number, len(behind[1]) + 2, " " + behind[2], False)


def python_comments(source):
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            yield Comment(line, column, token.string[1:], token.line[:column].strip() == "")


def docstrings(source):
    for node in ast.walk(ast.parse(source)):
        if (
            not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            or not node.body
        ):
            continue
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            lines = ast.get_source_segment(source, first.value).strip("rbu\"'").split("\n")
            indent = min((indent_of(line) for line in lines[1:] if line.strip()), default=0)
            yield Block(
                [
                    (first.lineno + number, line[indent if number else 0 :])
                    for number, line in enumerate(lines)
                ]
            )


def literals(source):
    """The texts that a program prints. Literals with nothing but space between them are one text."""
    lines, end = [], -1
    for number, _, found in tokens(source):
        text = found["text"] if found["text"] is not None else found["raw"]
        if text is None:
            continue
        if lines and source[end : found.start()].strip():
            yield Block(lines, opens_code=False)
            lines = []
        lines += [(number + more, part) for more, part in enumerate(re.split(r"\n|\\n", text))]
        end = found.end()
    if lines:
        yield Block(lines, opens_code=False)


def joined(comments):
    """Comments on lines one below the other, at one column, are one block."""
    block, before = None, None
    for comment in comments:
        below = before is not None and comment.line == before.line + 1 and comment.alone
        same = before is not None and before.is_open and comment.is_open and comment.column == before.column
        if below and (comment.goes_on or same):
            block.lines.append((comment.line, comment.text))
        else:
            if block:
                yield block
            block = Block([(comment.line, comment.text)])
        before = comment
    if block:
        yield block


def markdown_blocks(source):
    """Paragraphs, items of lists and cells of tables; blocks of code are left out."""
    block, fenced = None, False
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
            text = ""
        if fenced or not text or text.startswith(("<", "![")):
            if block:
                yield block
            block = None
            continue
        if text.startswith("|"):
            if block:
                yield block
            block = None
            for cell in re.split(r"(?<!\\)\|", text.strip("|")):
                yield Block([(number, cell.strip())], opens_code=False)
            continue
        if text.startswith("#"):
            if block:
                yield block
            block = None
            continue
        if re.match(r"(?:[-*+]|\d+\.) ", text) and block:
            yield block
            block = None
        if block:
            block.lines.append((number, text))
        else:
            block = Block([(number, re.sub(r"^(?:[-*+]|\d+\.) ", "", text))], opens_code=False)
    if block:
        yield block


ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|@\w+|:\w+[^:]*:|Args:|Returns:|Raises:)(?:\s|$)|^\s*$|^.*\S {2,}\S")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|cf|etc|Fig|No|approx)\.$")


def indent_of(text):
    return len(text) - len(text.lstrip())


def begins_text(lines, at):
    """True if the line begins a text of its own: an item, a row of a table, or a line with another indent."""
    text, before = lines[at][1], lines[at - 1][1]
    if ITEM.match(text) or not before.strip():
        return True
    difference = indent_of(text) - indent_of(before)
    return difference <= -2 or (difference >= 2 and not ITEM.match(before) and before.rstrip().endswith(":"))


def sentences(block):
    """Pairs of a line's number and a sentence that begins there.

    Items of lists and rows of tables are texts of their own.
    """
    words, start = [], block.lines[0][0]
    for at, (number, text) in enumerate(block.lines):
        if at > 0 and begins_text(block.lines, at) and words:
            yield start, words
            words = []
        for word in text.split():
            if not words:
                start = number
            words.append(word)
            if re.search(r"[.!?][)\"'`*_]*$", word) and not ABBREVIATION.search(word):
                yield start, words
                words = []
    if words:
        yield start, words


def count_words(words):
    """Words, as a reader counts them: a mark, a number with its unit or a path is at most one."""
    return sum(1 for word in words if re.search(r"\w", word))


def plain(text):
    """The text without code and without the targets of links."""
    text = re.sub(r"`[^`]*`", "`x`", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def is_python(path, source):
    return path.suffix in (".py", ".pyi") or source.startswith(
        ("#!/usr/bin/env python3", "#!/usr/bin/python3")
    )


def blocks_of(path, source):
    suffix = path.suffix
    if suffix in CODE:
        yield from joined(code_comments(source))
        if path.parts[0] in PRODUCT:
            yield from literals(source)
    elif (
        suffix == ".py"
        or source.startswith("#!/usr/bin/env python3")
        or source.startswith("#!/usr/bin/python3")
    ):
        yield from joined(python_comments(source))
        yield from docstrings(source)
    elif suffix == ".md":
        yield from markdown_blocks(source)
    elif suffix in HASH or source.startswith("#!"):
        yield from joined(hash_comments(source))


def is_fault_of_start(text):
    text = text.lstrip()
    return next((word for word in HEADLESS if re.match(rf"{word}\b(?!')", text)), None)


def lines_in_literals(source):
    """The lines of Python that lie in a literal of several lines, such as a program that a test writes."""
    documented = {line for block in docstrings(source) for line, _ in block.lines}
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.STRING and token.start[0] < token.end[0]
        for line in range(token.start[0], token.end[0] + 1)
    } - documented


def faults_of(name, path, source):
    literal = lines_in_literals(source) if is_python(path, source) else ()
    for number, line in enumerate(source.split("\n"), 1):
        if len(line) <= COLUMNS or number in literal:
            continue
        if path.suffix == ".md" and line.lstrip().startswith("|"):
            continue  # a row of a table
        if re.fullmatch(r"\s*(?://+|#|\*|-|>)?\s*\S+", line):
            continue  # one word, such as an address, that cannot be broken
        yield Fault(name, number, "line", f"{len(line)} columns")
    for block in blocks_of(path, source):
        first = next((text for _, text in block.lines if text.strip()), "")
        word = is_fault_of_start(first) if block.opens_code else None
        if word:
            yield Fault(name, block.lines[0][0], "start", f"begins with {word!r}: {first.strip()[:70]}")
        for line, words in sentences(block):
            number = count_words(plain(" ".join(words)).split())
            if number > WORDS:
                yield Fault(name, line, "sentence", f"{number} words: {' '.join(words)[:80]}")
        whole = plain(" ".join(text.strip() for _, text in block.lines))
        for pattern, remedy in DIALECT.items():
            for found in re.finditer(pattern, whole):
                yield Fault(name, block.lines[0][0], "dialect", f"{found[0]!r}; write {remedy}")


def is_read(path):
    if (
        path.parts[:2] in (("tests", "golden"),)
        or path.parts[:3] == ("tests", "fuzz", "corpus")
        or "data" in path.parts
    ):
        return False
    if path == pathlib.PurePath("tests/docs/not_executed.txt"):  # a table
        return False
    return path.name != "LICENSE" and path.suffix not in (".svg", ".json", ".png", ".dict", ".typed", ".ld")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    listed = subprocess.run(
        [
            "git",
            "-C",
            options.root,
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            *options.paths,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [
        name
        for name in listed.split("\0")
        if name and is_read(pathlib.Path(name)) and (options.root / name).is_file()
    ]
    faults = []
    for name in names:
        try:
            source = (options.root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        faults += faults_of(name, pathlib.Path(name), source)
    if options.count:
        table = collections.defaultdict(collections.Counter)
        for fault in faults:
            folder = "/".join(pathlib.Path(fault.path).parts[:2]) if "/" in fault.path else fault.path
            table[folder][fault.rule] += 1
            table["all"][fault.rule] += 1
        for folder, counts in sorted(table.items(), key=lambda row: -sum(row[1].values())):
            print(
                f"{sum(counts.values()):6} {folder:40}",
                *(f"{rule} {count:5}" for rule, count in sorted(counts.items())),
            )
    else:
        for fault in faults:
            print(f"{fault.path}:{fault.line}: {fault.rule}: {fault.text}")
    print(f"{len(names)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
