#!/usr/bin/env python3
"""Checks every include against the table of rooms in docs/architecture.md.

The table's first column names a room by its folder. The last column names the rooms that it may include,
besides itself; a room there allows the rooms inside it. A row for `ops/*` represents each folder in ops/.
Files under tests/ may include anything. No path along the includes may lead from a room back to it.

usage: arrows.py [ROOT]
"""

import re
import subprocess
import sys
from pathlib import Path

SOURCES = ("*.cc", "*.c", "*.h", "*.hpp", "*.inc", "*.cu")
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def read_table(text, last_head):
    """Returns {room: the names in its last column}, from the rows of the tables whose last head is
    `last_head`."""
    rows, in_table = {}, False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            in_table = False
        elif cells[-1] == last_head:
            in_table = True
        elif in_table and not set(cells[0]) <= set("-: "):
            rooms, names = (re.findall(r"`([^`]+)`", cell) for cell in (cells[0], cells[-1]))
            for room in rooms:
                rows[room.rstrip("/")] = [name.rstrip("/") for name in names]
    return rows


def room_of(path, rules):
    """Returns the room with the longest name that holds the file, or None."""

    def holds(room):
        if room.endswith("/*"):
            return path.startswith(room[:-1]) and "/" in path[len(room) - 1 :]
        return path.startswith(room + "/")

    return max(filter(holds, rules), key=len, default=None)


def same_room(path, included, room):
    """True if both files lie in one folder, for a row that represents several rooms."""
    depth = room.count("/") + 1
    return path.split("/")[:depth] == included.split("/")[:depth]


def is_allowed(to, allowed):
    return any(to == each or to.startswith(each + "/") for each in allowed)


def circle_in(arrows):
    """Returns rooms of which each includes the next, and the last includes the first; empty if there are
    none."""
    done, way = set(), []

    def follow(room):
        if room in way:
            return way[way.index(room) :] + [room]
        if room in done:
            return []
        way.append(room)
        for to in sorted(arrows.get(room, ())):
            if circle := follow(to):
                return circle
        done.add(way.pop())
        return []

    return next((circle for room in sorted(arrows) if (circle := follow(room))), [])


def find_faults(root, rules):
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", *SOURCES], check=True, capture_output=True, text=True
    )
    faults, checked, arrows = [], 0, {}
    for path in filter(None, listed.stdout.split("\0")):
        room = room_of(path, rules)
        if path.startswith("tests/"):
            continue
        if room is None:
            faults.append(f"{path} lies in no room of the table")
            continue
        for number, line in enumerate((Path(root) / path).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            included = match and match.group(1)
            to = included and room_of(included, rules)
            if not to:
                continue  # the header is another project's, or generated
            checked += 1
            if to == room and same_room(path, included, room):
                continue
            if not room.endswith("*"):  # such a row represents several rooms
                arrows.setdefault(room, set()).add(to)
            if not is_allowed(to, rules[room]):
                faults.append(f"{path}:{number}: {room} may not include {to} ({included})")
    if circle := circle_in(arrows):
        faults.append("a circle: " + " -> ".join(circle))
    return faults, checked


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    rules = read_table((Path(root) / "docs/architecture.md").read_text(), "may include")
    if len(rules) < 10:
        sys.exit("docs/architecture.md has no table of rooms with a column 'may include'")
    faults, checked = find_faults(root, rules)
    if checked < 300:
        faults.append(f"only {checked} includes were seen: the search is broken")
    print("\n".join(faults) or f"{checked} includes follow the arrows of {len(rules)} rooms")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
