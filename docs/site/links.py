"""Where the files of the tree are on the site, and links between them."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# [text](target) and ![text](target), the target being neither a web address nor a place on the same page.
LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)", re.S)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
# In prose, where a name begins a tag only if a tag's syntax follows. Python-Markdown takes <E, D> for one.
LESS = re.compile(r"^    .*$|<(?!/?[a-z][\w-]*(?:[\s/][^,<]*)?>|!--|https?:)", re.M)
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "include/sdtw.h": "c-reference.md",
}


def site_path(file):
    """The page, or other file of the site, that shows this file of the tree; both are paths as text."""
    if file in PAGES:
        return PAGES[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if re.fullmatch(r"examples/\w+\.(py|c|cpp|cu)", file):
        return f"{file.replace('.', '-')}.md"
    return f"source/{file}.md"


def links_of(file, text):
    """Matches of LINK outside code, with the file of the tree that each points to."""
    code = [match.span() for match in CODE.finditer(text)]
    for match in LINK.finditer(text):
        if not any(begin <= match.start() < end for begin, end in code):
            yield match, posixpath.normpath(posixpath.join(posixpath.dirname(file), match["path"]))


def escape(text):
    """The text with each < outside code that begins no tag written as an entity."""
    parts, end = [], 0
    for begin, after in [match.span() for match in CODE.finditer(text)] + [(len(text), len(text))]:
        prose = LESS.sub(lambda match: "&lt;" if match[0] == "<" else match[0], text[end:begin])
        parts += [prose, text[begin:after]]
        end = after
    return "".join(parts)


def rewrite(file, text):
    """The text of a file of the tree with its links made those of the page that shows it."""
    text = escape(text)
    folder = posixpath.dirname(site_path(file))
    parts, end = [], 0
    for match, target in links_of(file, text):
        path = posixpath.relpath(site_path(target), folder or ".")
        parts += [text[end : match.start()], match["before"], path, match["anchor"] or "", ")"]
        end = match.end()
    return "".join([*parts, text[end:]])


def sources(files):
    """Files of the tree that pages link to and that no page of the site shows otherwise: {path: page}."""
    found = {}
    for file in files:
        for _, target in links_of(file, (ROOT / file).read_text()):
            if site_path(target).startswith("source/") and (ROOT / target).is_file():
                found[target] = site_path(target)
    return found
