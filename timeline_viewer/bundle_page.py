#!/usr/bin/env python3
"""Puts the page into one HTML file, and that into C++: bundle_page.py PAGE_FOLDER OUTPUT.cc

The modules are joined in the order of MODULES. Their imports, one line each, are left out, and exports keep
their names. So a name at the top level must mean the same in all modules. The page's policy allows only
scripts and styles with the right hashes. page.cc replaces the marks in the page by the data of a command.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

MODULES = [
    "format.js",
    "spans.js",
    "tracks.js",
    "colors.js",
    "ranks.js",
    "compare.js",
    "counters.js",
    "hover.js",
    "rows.js",
    "folding.js",
    "keys.js",
    "steer.js",
    "rectangles.js",
    "folded.js",
    "heads.js",
    "marks.js",
    "lanes.js",
    "link.js",
    "panel.js",
    "plots.js",
    "search.js",
    "steps.js",
    "main.js",
]
WORKER = ["scanner.js", "colors.js", "tracks.js", "summary.js", "builder.js", "worker.js"]
STYLE_LINK = '<link rel="stylesheet" href="./style.css">'
SCRIPT_LINK = '<script type="module" src="./main.js"></script>'


def joined(folder, names):
    texts = []
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        text = re.sub(r"^import .*\n", "", text, flags=re.MULTILINE)
        texts.append(re.sub(r"^export ", "", text, flags=re.MULTILINE))
    whole = "\n".join(texts)
    if "</script" in whole.lower() or "<!--" in whole:
        sys.exit(f"{folder}: a script would end in the middle of {names}")
    return whole


def hashed(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def once(text, old, new):
    if text.count(old) != 1:
        sys.exit(f"index.html has {text.count(old)} times: {old}")
    return text.replace(old, new)


def bundle(folder):
    unused = {path.name for path in folder.glob("*.js")} - set(MODULES + WORKER)
    if unused:
        sys.exit(f"bundle_page.py does not handle {', '.join(sorted(unused))}")
    script, worker = joined(folder, MODULES), joined(folder, WORKER)
    style = (folder / "style.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; worker-src blob:; "
        "connect-src @CONNECT@; base-uri 'none'; form-action 'none'"
    )
    page = (folder / "index.html").read_text(encoding="utf-8")
    page = once(
        page,
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )
    page = once(page, STYLE_LINK, f"<style>{style}</style>\n@DATA@")
    return once(
        page,
        SCRIPT_LINK,
        f'<script type="text/plain" id="dabke-worker">{worker}</script>\n'
        f'<script type="module">{script}</script>',
    )


def main():
    folder, output = map(Path, sys.argv[1:])
    data = bundle(folder).encode()
    rows = [
        ", ".join(str(byte if byte < 128 else byte - 256) for byte in data[at : at + 32])
        for at in range(0, len(data), 32)
    ]
    output.write_text(
        '// Made by bundle_page.py.\n#include "timeline_viewer/page.h"\n\n'
        "namespace dabke::viewer {\nnamespace {\n\n"
        "constexpr char kBytes[] = {" + ",\n".join(rows) + "};\n\n}  // namespace\n\n"
        "std::string_view bundled_page() { return {kBytes, sizeof(kBytes)}; }\n\n"
        "}  // namespace dabke::viewer\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
