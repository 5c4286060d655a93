"""Writes the references in pages of docs/ from the docstrings of the modules.

python docs/reference.py            write it
python docs/reference.py --check    fail if it is not what the docstrings say
"""

import inspect
import re
import sys
import textwrap
from pathlib import Path

import libsdtw.collections
import libsdtw.jax
import libsdtw.torch

BEGIN, END = "<!-- reference: written by docs/reference.py -->", "<!-- end of reference -->"
PAGES = {  # the module, and its names in the order of the page
    "pytorch.md": (
        libsdtw.torch,
        "soft_dtw SoftDTW soft_dtw_alignment soft_dtw_with_alignment soft_dtw_divergence sharp_soft_dtw "
        "soft_dtw_cdist soft_dtw_barycenter pad to_lengths",
    ),
    "jax.md": (
        libsdtw.jax,
        "soft_dtw soft_dtw_alignment soft_dtw_with_alignment soft_dtw_divergence sharp_soft_dtw "
        "soft_dtw_cdist soft_dtw_barycenter pad to_lengths",
    ),
    "collections.md": (
        libsdtw.collections,
        "SoftDTWKMeans SoftDTWKMedoids SoftDTWKNeighborsClassifier SoftDTWKNeighborsRegressor "
        "SoftDTWNearestNeighbors reduce_pairs TopK Sums Histogram Matrix soft_dtw_top_k soft_dtw_argmin "
        "soft_dtw_sums soft_dtw_histogram soft_dtw_matrix soft_dtw_barycenter BarycenterInfo "
        "median_gamma",
    ),
}


def signature(thing):
    parameters, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if p.default is p.empty else f"={p.default!r}"
        parameters.append(p.name + default)
    return ", ".join(parameters)


def reference(module, names):
    assert set(names) == set(module.__all__)
    parts = []
    for name in names:
        thing = getattr(module, name)
        text = re.sub(r":(?:func|class):`", "`", inspect.getdoc(thing))
        call = textwrap.fill(f"{name}({signature(thing)})", 110, subsequent_indent="    ")
        parts.append(f"### {name}\n\n```text\n{call}\n\n{text}\n```\n")
    return "\n".join(parts)


def main():
    for name, (module, names) in PAGES.items():
        file = Path(__file__).parent / name
        page = file.read_text()
        before, rest = page.split(BEGIN)
        written = f"{before}{BEGIN}\n\n{reference(module, names.split())}\n{END}{rest.split(END)[1]}"
        if "--check" not in sys.argv[1:]:
            file.write_text(written)
        elif written != page:
            raise SystemExit(f"docs/{name} is not what the docstrings say: run python docs/reference.py")


if __name__ == "__main__":
    main()
