"""What MkDocs asks for while it builds the site: generated pages, links out of docs/, charts and scripts."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import c_reference
import charts
import docstrings
import gallery
from links import PAGES, ROOT, rewrite, site_path, sources

OUTSIDE = [name for name in PAGES if name.endswith(".md") and name != "README.md"]
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".cpp": "cpp", ".cu": "cuda", ".json": "json"}
TABLE = re.compile(r"^<!-- table: .*? -->\n(.*?)^<!-- end of table -->\n", re.M | re.S)
MARKER = re.compile(r"^<!-- (?!chart: ).*? -->\n", re.M)
SCRIPTS = Path(__file__).parent / "assets"

examples = []


def package_file(package, path):
    return Path(find_spec(package).submodule_search_locations[0], path)


# Scripts, by the sign of a page that needs them: they are large, so other pages do not load them.
LIBRARIES = {
    'class="diagram"': ("assets/mermaid.js", "assets/diagrams.js"),
    'class="chart"': ("assets/plotly.js", "assets/charts.js"),
}


def names_of(nav):
    """All page names in a nav of mkdocs.yml."""
    if isinstance(nav, str):
        return [nav]
    return [name for part in (nav.values() if isinstance(nav, dict) else nav) for name in names_of(part)]


def on_config(config):
    examples[:] = gallery.discover(run_them=os.environ.get("SDTW_DOCS_EXAMPLES") != "no")
    sections = {title: content for part in config.nav for title, content in part.items()}
    sections["Gallery"] += [{example.title: example.page} for example in examples]
    named = set(names_of(config.nav))
    sections["Guides"] += sorted({path.name for path in ROOT.glob("docs/*.md")} - named)
    return config


def on_files(files, config):
    def add(path, content):
        files.append(File.generated(config, path, content=content))

    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for name in OUTSIDE:
        add(site_path(name), (ROOT / name).read_text())
    for source, page in sources(pages + OUTSIDE).items():
        language = LANGUAGES.get(Path(source).suffix, "text")
        add(page, f"# {source}\n\n``` {language}\n{(ROOT / source).read_text()}```\n")
    add("c-reference.md", c_reference.page(ROOT / "include/sdtw.h"))
    add("examples/index.md", gallery.index(examples))
    for example in examples:
        add(example.page, gallery.page(example))
        if example.picture:
            add(f"examples/{example.picture.name}", example.picture.read_bytes())
    add("assets/mermaid.js", package_file("mermaidx", "assets/mermaid.js").read_bytes())
    add("assets/plotly.js", package_file("plotly", "package_data/plotly.min.js").read_bytes())
    for path in SCRIPTS.iterdir():
        add(f"assets/{path.name}", path.read_bytes())
    return files


def on_page_markdown(markdown, page, config, files):
    file = next((name for name in OUTSIDE if site_path(name) == page.file.src_uri), None)
    if file is None and page.file.abs_src_path is not None:
        file = f"docs/{page.file.src_uri}"
    if file is not None:
        markdown = docstrings.put_into(markdown)
        markdown = TABLE.sub(r'<div class="measured" markdown>\n\n\1\n</div>\n', markdown)
        markdown = rewrite(file, MARKER.sub("", markdown))
    return charts.put_into(markdown)


def on_post_page(output, page, config):
    up = "../" * page.file.src_uri.count("/")
    for sign, scripts in LIBRARIES.items():
        if sign in output:
            tags = "".join(f'<script src="{up}{script}"></script>' for script in scripts)
            output = output.replace("</body>", f"{tags}</body>")
    return output
