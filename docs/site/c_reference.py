"""The reference of the C interface as a Markdown page, from the header's declarations and its own comments.

A comment right above declarations is theirs, one behind an enumerator or a field is its own, and one that
begins with ---- opens a section. Declarations without a blank line in between belong together.
"""

import re
import textwrap
from dataclasses import dataclass, field

import tree_sitter_c
from tree_sitter import Language, Parser

# What is for compilers alone: blanked, so that plain declarations are left, each on its line.
NOISE = (
    re.compile(r"^#ifdef __cplusplus\n.*?^#endif\n", re.M | re.S),
    re.compile(r"^#if defined\(SDTW_STATIC\).*?^#endif\n(?=\n)", re.M | re.S),
    re.compile(r"^#(ifndef SDTW_H|define SDTW_H|endif.*|include.*)\n", re.M),
    re.compile(r"\bSDTW_API "),
)
NAME = r"(?:[A-Za-z]\w*\.)?(?:sdtw_|SDTW_)\w+(?:\.\w+)*(?:\(\))?"
WORD = r"[a-z]\w*(?:\.[A-Za-z]\w*)+|[A-Za-z]\w*_\w+(?:\[\w+\])?|[A-Z]\[[^\]]+\]"
TOKEN = re.compile(f"(?P<name>{NAME})|(?P<word>{WORD})")
ESCAPED = str.maketrans({c: f"\\{c}" for c in "*_[]`"} | {"<": "&lt;", ">": "&gt;", "|": "&#124;"})


@dataclass
class Member:
    code: str
    value: str = ""
    doc: str = ""


@dataclass
class Item:
    """A declaration: its names, its text, and the rows of its table if it has members."""

    names: list[str]
    code: str
    members: list[Member] = field(default_factory=list)
    kind: str = ""


@dataclass
class Group:
    doc: str
    items: list[Item]


def text_of(node):
    return node.text.decode()


def comment_text(comment):
    """What a comment says, without its stars."""
    lines = comment.removeprefix("/*").removesuffix("*/").splitlines()
    lines = [lines[0].strip(), *(re.sub(r"^\s*\* ?", "", line).rstrip() for line in lines[1:])]
    return "\n".join(lines).strip()


def top_level(header):
    for noise in NOISE:
        header = noise.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), header)
    root = Parser(Language(tree_sitter_c.language())).parse(header.encode()).root_node
    if root.has_error:
        raise ValueError("the header is not what the parser of its reference understands")
    return [node for node in root.children if node.type != ";"]


def members(body, kinds):
    """Members of an enum or a struct with their comments: one behind it, or those above it."""
    found, above = [], []
    for node in body.children:
        if node.type == "comment":
            said = comment_text(text_of(node))
            if found and node.start_point.row == found[-1][1]:
                found[-1][0].doc = f"{found[-1][0].doc} {said}".strip()
            else:
                above.append(said)
        elif node.type in kinds:
            value = node.child_by_field_name("value")
            code = text_of(node.child_by_field_name("name")) if node.type == "enumerator" else text_of(node)
            member = Member(code.rstrip(";"), text_of(value) if value else "", "\n\n".join(above))
            found.append((member, node.end_point.row))
            above = []
    return [member for member, _ in found]


def find(node, *kinds):
    """The first node of these kinds in or below a node, in the order of the text."""
    if node.type in kinds:
        return node
    return next((found for child in node.children if (found := find(child, *kinds))), None)


def item_of(node):
    if node.type == "preproc_def":
        name = text_of(node.child_by_field_name("name"))
        value = re.sub(r"/\*.*?\*/", "", text_of(node.child_by_field_name("value"))).strip()
        return Item([name], f"#define {name} {value}")
    code = text_of(node)
    body = find(node, "enumerator_list")
    if body is not None:
        found = members(body, {"enumerator"})
        return Item([member.code for member in found], "", found, "enum")
    body = find(node, "field_declaration_list")
    if body is not None:
        names = [text_of(node.child_by_field_name("declarator"))]
        return Item(names, "", members(body, {"field_declaration"}), "struct")
    declarator = find(node, "function_declarator")
    if declarator is not None:
        return Item([text_of(find(declarator, "identifier"))], code, kind="function")
    return Item([text_of(node.child_by_field_name("declarator"))], code, kind="typedef")


def groups_of(nodes):
    """[(section title, its text, groups)]; the header's first comment is a section without title."""
    sections, doc, end = [], None, -2
    for node in nodes:
        row = node.start_point.row
        if node.type == "comment":
            text = comment_text(text_of(node))
            if text.startswith("----"):
                title, _, rest = re.sub(r"^-+ (\d+\. )?| ?-+$", "", text).partition(
                    ". " if ". " in text[8:] else ": "
                )
                sections.append((title, rest.strip(), []))
            elif not sections:
                sections.append(("", text, []))
            elif row != end:  # one behind a #define is in its text
                doc = (text, node.end_point.row)
            continue
        item = item_of(node)
        groups = sections[-1][2]
        if doc is None and groups and row <= end + 1:
            groups[-1].items.append(item)
        else:
            groups.append(Group(doc[0] if doc and doc[1] == row - 1 else "", [item]))
        if node.type == "preproc_def" and (behind := re.search(r"/\*.*?\*/", text_of(node))):
            groups[-1].doc = "\n\n".join(filter(None, (groups[-1].doc, comment_text(behind[0]))))
        doc, end = None, node.end_point.row - (node.type == "preproc_def")
    return sections


def inline(text, anchors):
    """A sentence of a comment as Markdown: names as code, those of this page as links."""
    parts, end = [], 0
    for match in TOKEN.finditer(text):
        parts.append(text[end : match.start()].translate(ESCAPED))
        code = match[0].replace("|", "&#124;")
        base = match[0].split(".")[0].removesuffix("()")
        parts.append(f"[`{code}`](#{base})" if base in anchors else f"`{code}`")
        end = match.end()
    return "".join(parts) + text[end:].translate(ESCAPED)


def markdown(text, anchors):
    """A comment as Markdown. Indented lines are formulas, code or cases, and stay lines."""
    blocks = []
    for paragraph in re.split(r"\n{2,}", textwrap.dedent(text)):
        lines = paragraph.splitlines()
        run = []
        for line in lines:
            kind = "bullet" if re.match(r" ?- ", line) else "text"
            if kind == "text" and line.startswith("  "):
                kind = run[-1][0] if run and run[-1][0] == "bullet" else "code"
            if run and run[-1][0] == kind and not (kind == "bullet" and re.match(r" ?- ", line)):
                run[-1][1].append(line)
            else:
                run.append((kind, [line]))
        blocks += run
    parts = []
    for kind, lines in blocks:
        if kind == "code":
            language = "c" if lines[0].endswith(";") and "_" in lines[0] else "{.text .wrap}"
            parts.append(f"``` {language}\n" + textwrap.dedent("\n".join(lines)) + "\n```")
            continue
        sentence = inline(" ".join(line.strip() for line in lines).removeprefix("- "), anchors)
        parts.append(f"- {sentence}" if kind == "bullet" else sentence)
    return "\n\n".join(parts)


def table(item, anchors):
    def cell(text):
        return inline(" ".join(text.split()), anchors)

    rows = (
        [["name", "value", "meaning"], ["---"] * 3]
        if item.kind == "enum"
        else [["field", "meaning"], ["---"] * 2]
    )
    for member in item.members:
        code = f"`{' '.join(member.code.split())}`"
        if item.kind == "enum":
            rows.append([f'<span id="{member.code}">{code}</span>', f"`{member.value}`", cell(member.doc)])
        else:
            rows.append([code, cell(member.doc)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def render(group, anchors):
    """Title, code, tables and comment of declarations that belong together."""
    items = group.items
    named = [name for item in items if item.kind != "enum" for name in item.names]
    doc = group.doc
    if named:
        title = ", ".join(f"`{name}`" for name in named)
    else:  # flags: the comment's first words say of what
        title, _, doc = doc.partition("\n\n")
        title = f"`{title}`"
    anchor = re.sub(r"\W+", "_", (named or [title.strip("`")])[0])
    parts = [f"### {title} {{#{anchor}}}"]
    anchors_of_others = "".join(f'<span id="{name}"></span>' for name in named[1:])
    code = "\n".join(item.code for item in items if item.code)
    if code:
        parts.append(f"``` c\n{code}\n```")
    for item in items:
        if item.members:
            caption = f"**`{item.names[0]}`**\n\n" if item.kind == "struct" and len(items) > 1 else ""
            parts.append(caption + table(item, anchors))
    if doc:  # behind the code, above tables
        parts.insert(2 if code else 1, markdown(doc, anchors))
    if anchors_of_others:
        parts.insert(1, anchors_of_others)
    return "\n\n".join(parts)


def page(header):
    sections = groups_of(top_level(header.read_text()))
    anchors = {
        name for _, _, groups in sections for group in groups for item in group.items for name in item.names
    }
    parts = ["# C reference"]
    for title, text, groups in sections:
        if title:
            parts.append(f"## {title[0].upper()}{title[1:]}")
        else:  # the first line is the file's name and what it is
            text = re.sub(r"^\w+\.h: (\w)|SPDX\S* .*\n", lambda m: (m[1] or "").upper(), text)
        parts.append(markdown(text if not title else " ".join(text.split()), anchors))
        parts += [render(group, anchors) for group in groups]
    return "\n\n".join(filter(None, parts)) + "\n"
