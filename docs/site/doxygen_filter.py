#!/usr/bin/env python3
"""Reads a public header and writes it for Doxygen, which takes /** as documentation and /* as nothing.

A line such as `/* ---- collectives ---- */` begins a group. A comment before a blank line describes it.

usage: doxygen_filter.py HEADER
"""

import re
import sys

COMMENT = re.compile(r"/\*(?!\*).*?\*/", re.S)
SECTION = re.compile(r"/\* -{3,} (.+?) -{3,} \*/")


def identifier(title):
    return "section_" + re.sub(r"\W+", "_", title).strip("_")


def text_of(comment):
    lines = (re.sub(r"^\s*\* ?", "", line) for line in comment[2:-2].split("\n"))
    return "\n".join(line.rstrip() for line in lines).strip()


def with_lists_ended(text):
    """Separates a list from the text below it, which Doxygen would take for a part of the last item."""
    return re.sub(r"(?m)^( \* {3,}\S.*\n)(?= \* ?[A-Za-z`])", r"\1 *\n", text)


def filtered(source):
    out, at, opened = [], 0, False
    for found in COMMENT.finditer(source):
        before = source[at : found.start()]
        out.append(before)
        at = found.end()
        section = SECTION.fullmatch(found[0])
        follows_code = before.rsplit("\n", 1)[-1].strip() != ""
        if section:
            out.append("/** @} */\n" if opened else "")
            out.append(f"/** @defgroup {identifier(section[1])} {section[1]} */\n")
            out.append(f"/** @addtogroup {identifier(section[1])}\n * @{{ */")
            opened = True
        elif follows_code:
            out.append("/**< " + found[0][2:])
        elif opened and re.match(r"\n\s*\n", source[at:]):
            # Doxygen adds this to the description of the group, and goes on with its members.
            group = re.findall(r"@addtogroup (\w+)", "".join(out))[-1]
            out.append(f"/** @}} */\n/** @addtogroup {group}\n *\n")
            described = "".join(f" * {line}\n" for line in text_of(found[0]).split("\n"))
            out.append(with_lists_ended(described))
            out.append(" * @{ */")
        else:
            out.append("/**" + with_lists_ended(found[0][2:]))
    out.append(source[at:])
    text = "".join(out)
    if opened:
        end = text.rindex("#ifdef __cplusplus")
        text = text[:end] + "/** @} */\n" + text[end:]
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(filtered(header.read()))
