"""The gallery: every program in examples/ with what it says of itself, its output and its picture.

Programs of Python are run, with --output if they have that option, and what they print and draw is kept in
build/gallery until the program changes. Those of C and C++ are shown; tests build and run them.
"""

import ast
import hashlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mkdocs.exceptions import PluginError

from links import ROOT, site_path

CACHE = ROOT / "build/gallery"
COMMENT = re.compile(r"\A(?:/\*(?P<block>.*?)\*/|(?P<lines>(?://[^\n]*\n)+))", re.S)
LANGUAGES = {".py": "python", ".c": "c", ".cpp": "cpp", ".cu": "cuda"}


@dataclass
class Example:
    path: Path
    about: str  # Markdown
    printed: str = ""
    picture: Path | None = None

    @property
    def title(self):
        words = self.path.stem.replace("_", " ")
        return f"{words[0].upper()}{words[1:]}" + (
            "" if self.path.suffix == ".py" else f" ({self.path.name})"
        )

    @property
    def page(self):
        return site_path(self.path.relative_to(ROOT).as_posix())

    @property
    def summary(self):
        """The first sentence of what it says of itself."""
        return re.split(r"(?<=\.)\s", self.about.split("\n\n")[0])[0].replace("\n", " ")


def about(path):
    """The docstring, or the comment at the top, of a program."""
    text = path.read_text()
    if path.suffix == ".py":
        return inspect.cleandoc(ast.get_docstring(ast.parse(text)) or path.stem)
    match = COMMENT.match(text)
    if match is None:
        return path.stem
    if match["block"] is not None:
        text = re.sub(r"^ \* ?", "", match["block"], flags=re.M)
    else:
        text = re.sub(r"^// ?", "", match["lines"], flags=re.M)
    return re.sub(r"^  (?=\S)", "    ", text.strip(), flags=re.M)  # what is indented is code


def key_of(path):
    """What the kept output belongs to: the program and the modules beside it that it may import."""
    helpers = [other for other in path.parent.glob("*.py") if not is_program(other)]
    contents = b"".join(file.read_bytes() for file in (path, *sorted(helpers)))
    return hashlib.sha256(contents).hexdigest()


def is_program(path):
    return path.suffix != ".py" or '__name__ == "__main__"' in path.read_text()


def run(example, run_it):
    """Runs a program of Python in a folder of its own, unless its output and picture are kept already."""
    kept = CACHE / example.path.stem
    picture, printed, key = (kept.with_suffix(suffix) for suffix in (".png", ".txt", ".key"))
    current = key.exists() and key.read_text() == key_of(example.path)
    if not current and not run_it:
        return
    if not current:
        CACHE.mkdir(parents=True, exist_ok=True)
        print(f"running {example.path.relative_to(ROOT)}", file=sys.stderr, flush=True)
        draws = '"--output"' in example.path.read_text()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, example.path, *(["--output", picture] if draws else [])],
                cwd=folder,
                env={**os.environ, "TQDM_DISABLE": "1", "MPLBACKEND": "Agg"},
                capture_output=True,
                text=True,
                timeout=900,
            )
        if done.returncode != 0:
            raise PluginError(f"{example.path.name} failed: {done.stderr[-2000:]}")
        printed.write_text(done.stdout.replace(f"{picture}", picture.name))
        key.write_text(key_of(example.path))
    example.printed = printed.read_text().strip()
    example.picture = picture if picture.exists() else None


def discover(run_them):
    """All examples, run if run_them: first those with pictures, then the others of Python, then C and C++."""
    paths = [path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in LANGUAGES]
    examples = [Example(path, about(path)) for path in paths if is_program(path)]
    for example in examples:
        if example.path.suffix == ".py":
            run(example, run_them)
    return sorted(examples, key=lambda e: (e.picture is None, e.path.suffix != ".py", e.path.name))


def index(examples):
    parts = [
        "---\nhide: [toc]\n---",
        "# Gallery",
        "Programs of `examples/`. Data come with packages that `./dev` installs: nothing is downloaded.",
        '<div class="grid gallery" markdown>',
    ]
    for example in examples:
        picture = f"![{example.title}]({example.picture.name}){{ loading=lazy }}" if example.picture else ""
        link = Path(example.page).name
        card = [f"**[{example.title}]({link})**", f"[{picture}]({link})" if picture else "", example.summary]
        parts.append('<div class="card" markdown>\n\n' + "\n\n".join(filter(None, card)) + "\n\n</div>")
    return "\n\n".join([*parts, "</div>"]) + "\n"


def page(example):
    language = LANGUAGES[example.path.suffix]
    parts = ["---\nhide: [toc]\n---", f"# {example.title}", example.about]
    if example.picture:
        parts.append(f"![What the program draws]({example.picture.name})")
    if example.printed:
        parts.append(f"It prints\n\n``` {{.text .wrap}}\n{example.printed}\n```")
    code = example.path.read_text().rstrip("\n")
    parts.append(f"## {example.path.relative_to(ROOT)}\n\n``` {language}\n{code}\n```")
    return "\n\n".join(parts) + "\n"
