"""Pages of the C and C++ reference, made of what Doxygen extracts from the public headers."""

import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as etree

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parents[1]
C_HEADER = SOURCES / "bindings/c/include/dabke/dabke.h"
CPP_HEADER = SOURCES / "bindings/cpp/include/dabke/dabke.hpp"

DOXYFILE = """
INPUT = {headers}
INPUT_FILTER = "{python} {filter}"
OUTPUT_DIRECTORY = {out}
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
AUTOLINK_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = DABKE_API=
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
"""


def extract():
    """The compounds of both headers by their identifiers, as Doxygen's XML has them."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = DOXYFILE.format(
            headers=f"{C_HEADER} {CPP_HEADER}",
            python=sys.executable,
            filter=HERE / "doxygen_filter.py",
            out=folder,
        )
        try:
            subprocess.run(["doxygen", "-"], input=configuration, text=True, check=True, cwd=folder)
        except FileNotFoundError:
            raise SystemExit("doxygen was not found; on Debian and Ubuntu: apt-get install doxygen") from None
        compounds = {}
        for path in pathlib.Path(folder, "xml").glob("*.xml"):
            for compound in etree.parse(path).getroot().iter("compounddef"):
                compounds[compound.get("id")] = compound
        return compounds


def escaped(text):
    """Text with names of the API as code, and without marks of Markdown."""
    parts = re.split(r"(\b(?:dabke_|DABKE_|DL)\w+(?:\(\))?)", text)
    return "".join(
        f"`{part}`" if at % 2 else re.sub(r"([*_<>\[\]#|])", r"\\\1", part) for at, part in enumerate(parts)
    )


def inline(node):
    """The text of a paragraph as Markdown, without its blocks."""
    text = escaped(node.text or "")
    for child in node:
        if child.tag == "computeroutput":
            text += f"`{''.join(child.itertext())}`"
        elif child.tag in ("itemizedlist", "orderedlist", "simplesect", "programlisting", "verbatim"):
            text += "\n\n" + "\n".join(block(child)) + "\n\n"
        elif child.tag == "bold":
            text += f"**{inline(child)}**"
        elif child.tag == "emphasis":
            text += f"*{inline(child)}*"
        elif child.tag == "linebreak":
            text += "  \n"
        elif child.tag in ("ndash", "mdash"):
            text += "-"
        else:
            text += inline(child)
        text += escaped(child.tail or "")
    return text


def block(node):
    """Lines of Markdown for a paragraph, a list or a piece of code."""
    if node.tag in ("itemizedlist", "orderedlist"):
        mark = "-" if node.tag == "itemizedlist" else "1."
        for item in node.iter("listitem"):
            body = "\n".join(line for para in item.iter("para") for line in block(para)).strip()
            yield f"{mark} " + body.replace("\n", "\n    ")
    elif node.tag == "programlisting":
        yield "```c"
        for line in node.iter("codeline"):
            for space in line.iter("sp"):
                space.text = " "
            yield "".join(line.itertext())
        yield "```"
    elif node.tag == "verbatim":
        yield "```\n" + (node.text or "").rstrip() + "\n```"
    elif node.tag == "simplesect":
        yield f"**{node.get('kind', '').capitalize()}:** " + " ".join(
            inline(para) for para in node.iter("para")
        )
    else:
        yield inline(node).strip()
    yield ""


def description_of(node):
    lines = []
    for part in ("briefdescription", "detaileddescription"):
        for para in node.findall(f"{part}/para"):
            lines += block(para)
    return "\n".join(lines).strip()


def line_of(member):
    place = member.find("location")
    return int(place.get("line")) if place is not None else 0


def signature_of(member):
    kind, name = member.get("kind"), member.findtext("name")
    if kind == "enum":
        values = []
        for value in member.findall("enumvalue"):
            note = description_of(value).replace("\n", " ")
            note = re.sub(r"\\([*_<>\[\]#|])", r"\1", note)
            initializer = value.findtext("initializer") or ""
            values.append(
                f"  {value.findtext('name')} {initializer},".replace(" ,", ",")
                + (f"  /* {note} */" if note else "")
            )
        return f"enum {name} {{\n" + "\n".join(values) + "\n};"
    if kind == "define":
        value = member.findtext("initializer") or ""
        return f"#define {name} {'...' if chr(10) in value else value}".rstrip()
    if kind == "typedef":
        return (member.findtext("definition") or "") + (member.findtext("argsstring") or "") + ";"
    template = ""
    parameters = member.find("templateparamlist")
    if parameters is not None:
        names = [
            " ".join("".join(part.itertext()) for part in each if part.tag in ("type", "declname"))
            for each in parameters
        ]
        template = f"template <{', '.join(names)}>\n"
    text = "".join(
        (member.find("type") if member.find("type") is not None else etree.Element("type")).itertext()
    )
    return template + f"{text} {name}{member.findtext('argsstring') or ''}".strip() + ";"


def members_page(members, level, prefix=""):
    """Headings, signatures and descriptions. A member without a description stands with the one before it."""
    groups = []
    for member in sorted(members, key=line_of):
        if member.get("prot") not in (None, "public") or (member.findtext("name") or "").startswith("@"):
            continue
        text = description_of(member)
        close = groups and line_of(member) - line_of(groups[-1][0][-1]) <= 12
        if not text and close and member.get("kind") == groups[-1][0][-1].get("kind"):
            groups[-1][0].append(member)
        else:
            groups.append(([member], text))
    lines = []
    for group, text in groups:
        names = list(dict.fromkeys(prefix + member.findtext("name") for member in group))
        lines += [f"{'#' * level} " + ", ".join(f"`{name}`" for name in names), "", "```c++"]
        lines += [signature_of(member) for member in group] + ["```", ""]
        lines += [text, ""] if text else []
    return lines


def members_of(compound, kinds):
    return [member for member in compound.iter("memberdef") if member.get("kind") in kinds]


def struct_page(compound, level):
    lines = [f"{'#' * level} `{compound.findtext('compoundname')}`", "", description_of(compound), ""]
    fields = sorted(members_of(compound, ("variable",)), key=line_of)
    if not fields:
        return lines
    lines += ["| field | type | meaning |", "| --- | --- | --- |"]
    for field in fields:
        kind = "".join(field.find("type").itertext()) + (field.findtext("argsstring") or "")
        meaning = re.sub(r"\s*\n\s*", " ", description_of(field)).replace("|", "\\|").replace("\\\\|", "\\|")
        lines.append(f"| `{field.findtext('name')}` | `{kind}` | {meaning} |")
    return lines + [""]


def file_intro(compounds, header):
    for compound in compounds.values():
        place = compound.find("location")
        if compound.get("kind") == "file" and place is not None and place.get("file") == str(header):
            return description_of(compound)
    return ""


def c_page():
    compounds = extract()
    structs = [compound for compound in compounds.values() if is_struct_of(compound, C_HEADER)]
    lines = ["# C API", "", "All of `#include <dabke/dabke.h>`.", "", intro_of(C_HEADER), ""]
    for group in sorted((each for each in compounds.values() if each.get("kind") == "group"), key=first_line):
        title = group.findtext("title")
        lines += [f"## {title[0].upper()}{title[1:]}", "", description_of(group), ""]
        inner = {part.get("refid") for part in group.findall("innerclass")}
        members = members_of(group, ("function", "typedef", "enum", "define"))
        names = {member.findtext("name") for member in members if member.get("kind") == "enum"}
        plain = [
            each for each in members if not (each.get("kind") == "typedef" and is_alias(each, names, structs))
        ]
        lines += members_page(plain, 3)
        for struct in sorted((each for each in structs if each.get("id") in inner), key=line_of):
            lines += struct_page(struct, 3)
    return "\n".join(lines)


def is_struct_of(compound, header):
    place = compound.find("location")
    return (
        compound.get("kind") in ("struct", "class") and place is not None and place.get("file") == str(header)
    )


def is_alias(member, enums, structs):
    """True if a typedef only repeats the name of an enum or a struct."""
    return member.findtext("name") in enums | {struct.findtext("compoundname") for struct in structs}


def first_line(group):
    return min((line_of(member) for member in group.iter("memberdef")), default=0)


def intro_of(header):
    """The comment with which the header begins, as a list of its parts."""
    text = header.read_text(encoding="utf-8")
    if text.startswith("/*"):
        body = [re.sub(r"^ ?\*? ?", "", line) for line in text[2 : text.index("*/")].split("\n")]
    else:
        body = []
        for line in text.split("\n"):
            if not line.startswith("//"):
                break
            body.append(re.sub(r"^///? ?", "", line))
    lines = []
    for line in "\n".join(body).strip().split("\n"):
        row = re.match(r"^(\S+(?: \S+)?) {2,}(\S.*)$", line)
        if row:
            lines.append(f"- **{row[1]}**: {escaped(row[2])}")
        else:
            lines.append(("    " if line.startswith(" ") and lines else "") + escaped(line.strip()))
    text = "\n".join(lines)
    return re.sub(r"(?m)^(?!- )(\S.*)\n(- )", r"\1\n\n\2", text)


def cpp_page():
    compounds = extract()
    lines = [
        "# C++ API",
        "",
        "All of `#include <dabke/dabke.hpp>`, in namespace `dabke`.",
        "",
        intro_of(CPP_HEADER),
        "",
    ]
    classes = [compound for compound in compounds.values() if is_struct_of(compound, CPP_HEADER)]
    for each in sorted((one for one in classes if "detail" not in one.findtext("compoundname")), key=line_of):
        name = each.findtext("compoundname")
        if not name.startswith("dabke::"):
            continue
        fields = members_of(each, ("variable",))
        lines += struct_page(each, 2) if fields else [f"## `{name}`", "", description_of(each), ""]
        functions = members_of(each, ("function",))
        lines += members_page(functions, 3, name.removeprefix("dabke::") + "::")
    space = compounds["namespacedabke"]
    lines += ["## Functions", ""]
    lines += members_page(members_of(space, ("function", "typedef", "enum")), 3)
    return "\n".join(lines)
