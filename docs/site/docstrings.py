"""References of Python, which pages hold as docstrings in ```text blocks, as prose and lists of arguments."""

import re
import textwrap

from c_reference import inline

REFERENCE = re.compile(r"^<!-- reference: .*?^<!-- end of reference -->\n", re.M | re.S)
BLOCK = re.compile(r"^```text\n(?P<call>.*?)\n\n(?P<doc>.*?)^```$", re.M | re.S)
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):$", re.M)
ENTRY = re.compile(r"^(?P<name>[^\s:][^:\n]*):[ \n](?P<text>.*(?:\n(?: .*|$))*)", re.M)
CODE = re.compile(r"``.+?``|`[^`]+`", re.S)
TITLES = {"Args": "Arguments"}


def prose(text):
    """Paragraphs as Markdown; indented ones are code."""
    parts = []
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            parts.append(f"``` python\n{textwrap.dedent(paragraph)}\n```")
            continue
        line, end, sentence = " ".join(paragraph.split()), 0, ""
        for match in CODE.finditer(line):
            sentence += inline(line[end : match.start()], {}) + match[0]
            end = match.end()
        parts.append(sentence + inline(line[end:], {}))
    return "\n\n".join(parts)


def entries(text):
    """A definition list of name: text lines, the text going on in indented lines."""
    found = []
    for match in ENTRY.finditer(textwrap.dedent(text.strip("\n"))):
        said = textwrap.indent(prose(textwrap.dedent(match["text"]).replace("\n    ", "\n")), "    ")
        names, _, kind = match["name"].partition(" (")
        names = re.sub(r"[\w.*]+", lambda word: f"`{word[0]}`", names)
        found.append(f"{names}{f' ({inline(kind, {})}' if kind else ''}\n:{said[1:]}")
    return "\n\n".join(found)


def entry_of(match):
    call = textwrap.fill(
        " ".join(match["call"].split()), 84, subsequent_indent="    ", break_on_hyphens=False
    )
    before, *sections = SECTION.split(match["doc"])
    parts = [f"``` python\n{call}\n```", prose(before)]
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        text = textwrap.dedent(text.strip("\n"))
        listed = title in ("Args", "Attributes", "Raises")
        parts.append(f"**{TITLES.get(title, title)}**\n\n{entries(text) if listed else prose(text)}")
    return "\n\n".join(parts)


def page_of(reference):
    """One reference; names of its functions in the text become links."""
    text = BLOCK.sub(entry_of, reference[0])
    names = "|".join(re.findall(r"^### (\w+)$", text, re.M))
    return re.sub(rf"(?<!`)`({names})`(?!`)", lambda name: f"[{name[0]}](#{name[1].lower()})", text)


def put_into(markdown):
    return REFERENCE.sub(page_of, markdown)
