"""Writes the references in docs/pytorch.md and docs/jax.md from the docstrings of libsdtw.torch and libsdtw.jax.

python docs/reference.py            write it
python docs/reference.py --check    fail if it is not what the docstrings say
"""

import inspect
import sys
import textwrap
from pathlib import Path

import libsdtw.jax
import libsdtw.torch

PAGES = {"pytorch.md": libsdtw.torch, "jax.md": libsdtw.jax}
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


def reference(module):
    names = [name for name in ORDER if name in module.__all__]
    assert set(names) == set(module.__all__)
    parts = []
    for name in names:
        thing = getattr(module, name)
        text = inspect.getdoc(thing).replace(":func:`", "`")
        call = textwrap.fill(f"{name}({signature(thing)})", 110, subsequent_indent="    ")
        parts.append(f"### {name}\n\n```text\n{call}\n\n{text}\n```\n")
    return "\n".join(parts)


def main():
    for name, module in PAGES.items():
        path = Path(__file__).parent / name
        page = path.read_text()
        before, rest = page.split(BEGIN)
        written = f"{before}{BEGIN}\n\n{reference(module)}\n{END}{rest.split(END)[1]}"
        if "--check" not in sys.argv[1:]:
            path.write_text(written)
        elif written != page:
            raise SystemExit(f"docs/{name} is not what the docstrings say: run python docs/reference.py")


if __name__ == "__main__":
    main()
