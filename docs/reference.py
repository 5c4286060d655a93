"""Writes the reference in docs/pytorch.md from the docstrings of libsdtw.torch.

python docs/reference.py            write it
python docs/reference.py --check    fail if it is not what the docstrings say
"""

import inspect
import sys
import textwrap
from pathlib import Path

import libsdtw.torch

PAGE = Path(__file__).parent / "pytorch.md"
BEGIN, END = "<!-- reference: written by docs/reference.py -->", "<!-- end of reference -->"
ORDER = (
    "soft_dtw SoftDTW soft_dtw_alignment soft_dtw_with_alignment soft_dtw_divergence sharp_soft_dtw "
    "soft_dtw_cdist soft_dtw_barycenter pad to_lengths"
).split()


def signature(thing):
    parameters, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if p.default is p.empty else f"={p.default!r}"
        parameters.append(p.name + default)
    return ", ".join(parameters)


def reference():
    assert set(ORDER) == set(libsdtw.torch.__all__)
    parts = []
    for name in ORDER:
        thing = getattr(libsdtw.torch, name)
        text = inspect.getdoc(thing).replace(":func:`", "`")
        call = textwrap.fill(f"{name}({signature(thing)})", 110, subsequent_indent="    ")
        parts.append(f"### {name}\n\n```text\n{call}\n\n{text}\n```\n")
    return "\n".join(parts)


def main():
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    written = f"{before}{BEGIN}\n\n{reference()}\n{END}{rest.split(END)[1]}"
    if "--check" in sys.argv[1:]:
        if written != page:
            raise SystemExit("docs/pytorch.md is not what the docstrings say: run python docs/reference.py")
    else:
        PAGE.write_text(written)


if __name__ == "__main__":
    main()
