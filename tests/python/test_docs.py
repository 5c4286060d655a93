# The code of README.md, CONTRIBUTING.md and docs/ runs, prints what the page says, and its commands exist.
import importlib.util
import itertools
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from programs import ROOT, run, shared_library

# CHANGELOG.md tells of the past.
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
# A block of code and, right behind it or behind "It prints", the ```text block of the program's output.
BLOCK = re.compile(
    r"^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```$(?:\n+(?:It prints\n+)?```text\n(?P<printed>.*?)^```$)?",
    re.M | re.S,
)
COMPILERS = {"c": ("cc", "-std=c99", "-pedantic-errors"), "cpp": ("c++", "-std=c++17", "-pedantic-errors")}
# Packages that need what a machine may not have, a GPU for example: a page of theirs is skipped without them.
OPTIONAL = {"cupy", "distributed"}


def blocks(page: Path, *languages: str) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(page.read_text()) if block["language"] in languages]


def pages_with(*languages: str) -> list[object]:
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, *languages)]


def same(line: str, expected: str) -> bool:
    """Equal texts, of which numbers with a point are equal but for the last digit or so."""
    number = r"-?\d+\.\d+(?:e[+-]\d+)?"
    found, wanted = ([float(n) for n in re.findall(number, text)] for text in (line, expected))
    return re.split(number, line) == re.split(number, expected) and found == pytest.approx(wanted, rel=5e-5)


def headings(page: Path) -> set[str]:
    """What links to a page's headings end with, as GitHub forms it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name) for page in (*PAGES, ROOT / "CHANGELOG.md")]
)
def test_links_of_pages(page: Path) -> None:
    """They lead to files that exist and to headings that these have."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, heading = link.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), link
        assert not heading or heading in headings(to), link


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_of_pages(page: Path, tmp_path: Path) -> None:
    program = "\n".join(block["code"] for block in blocks(page, "python"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", program, re.M))
    absent = [name for name in OPTIONAL & imported if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
    (tmp_path / "program.py").write_text(program)
    printed = run(sys.executable, "program.py", cwd=tmp_path).splitlines()
    # A print with a comment prints what the comment says
    prints = re.findall(r"^print\(.*?\)(?:  # (.*))?$", program, re.MULTILINE)
    assert len(prints) == len(printed)
    for expected, line in zip(prints, printed, strict=True):
        if re.match(r"-?\d", expected):
            assert float(line) == pytest.approx(float(expected), rel=1e-6)
        elif expected:
            assert line == expected


@pytest.mark.parametrize("page", pages_with(*COMPILERS))
def test_c_of_pages(page: Path, tmp_path: Path) -> None:
    folder = shared_library().parent
    link = [f"-L{folder}", "-lsdtw", f"-Wl,-rpath,{folder}", "-lm"]
    for block in blocks(page, *COMPILERS):
        compiler, *flags = COMPILERS[block["language"]]
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler}")
        source = tmp_path / f"program.{block['language']}"
        source.write_text(block["code"])
        flags += ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
        run(compiler, *flags, source, *link, "-o", "program", cwd=tmp_path)
        printed = run("./program", cwd=tmp_path)
        if block["printed"]:
            lines, expected = printed.splitlines(), block["printed"].splitlines()
            assert len(lines) == len(expected)
            assert all(map(same, lines, expected)), printed


@pytest.mark.parametrize("page", pages_with("cmake"))
def test_cmake_of_pages(page: Path, tmp_path: Path) -> None:
    """The page's program is built by its lines of CMake against the library as it is installed."""
    build = shared_library().parent
    if not (build / "libsdtw.a").exists():
        pytest.skip(f"{build} has no static library to install")
    run("cmake", "--install", build, "--prefix", tmp_path / "installed", cwd=tmp_path)
    (program,) = blocks(page, *COMPILERS)
    (tmp_path / f"program.{program['language']}").write_text(program["code"])
    project = "cmake_minimum_required(VERSION 3.25)\nproject(program C CXX)\n"
    for block in blocks(page, "cmake"):
        source = f"add_executable(program program.{program['language']})\n"
        (tmp_path / "CMakeLists.txt").write_text(project + source + block["code"])
        prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"
        run("cmake", "-S", ".", "-B", "build", prefix, cwd=tmp_path)
        run("cmake", "--build", "build", cwd=tmp_path)
        assert run("build/program", cwd=tmp_path)


def test_the_c_of_the_readme_is_right(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (block,) = blocks(ROOT / "README.md", "c")
    (tmp_path / "program.c").write_text(block["code"])
    folder = shared_library().parent
    link = [f"-L{folder}", "-lsdtw", f"-Wl,-rpath,{folder}"]
    run("cc", "-std=c99", f"-I{ROOT / 'include'}", "program.c", *link, "-o", "program", cwd=tmp_path)
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", run("./program", cwd=tmp_path))]
    # tslearn, float64: 41.187627, and -4.0001, -2.2852, 10.1643 as its documentation prints them
    assert numbers == pytest.approx([41.187627, -4.0001, -2.2852, 10.1643], rel=5e-5)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_commands_of_pages(page: Path) -> None:
    """Indented blocks and ```sh are for a shell; what they name exists."""
    usage = run(ROOT / "dev", "help", cwd=ROOT)
    known = set(re.findall(r"^  (\S+)", usage, re.M))
    presets = set(re.findall(r'"name": "([\w-]+)"', (ROOT / "CMakePresets.json").read_text()))
    commands = [line for block in blocks(page, "sh") for line in block["code"].splitlines()]
    commands += re.findall(
        r"^    (?=\./dev |python |pip |cmake |cc |ctest |build/)(.*)$", page.read_text(), re.M
    )
    for command in commands:
        # A table of commands has what they do behind two spaces, with or without a #
        words = shlex.split(re.split(r"\s{2,}", command)[0], comments=True)
        if words[:1] == ["./dev"]:
            assert words[1] in known, command
        if words[:1] == ["python"] and words[1].endswith(".py"):
            assert (ROOT / words[1]).exists(), command
        for before, name in itertools.pairwise(words):
            assert before != "--preset" or name in presets, command
    shell = "\n".join(block["code"] for block in blocks(page, "sh"))
    checked = subprocess.run(["bash", "-n"], input=shell, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("frobnicate", "COMMAND is frobnicate: expected one of these"),
        ("format --chek", "arguments of format are --chek: expected --check or none"),
        ("docs --quik", "an argument of docs is --quik: expected --check, --quick"),
        ("asan --help", "an argument of asan is --help: expected none"),
        ("fuzz --random 1m", "SECONDS is 1m: expected a number"),
    ],
)
def test_dev_refuses(arguments: str, said: str, tmp_path: Path) -> None:
    dev = shutil.copy(ROOT / "dev", tmp_path)  # where there is nothing that it could change
    command = [dev, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert done.stderr.startswith(f"{said}\n\nusage: ")


def test_options_of_pip_are_known_to_debians() -> None:
    """Debian 12's pip, 23.0, has --config-settings, but not its short form, -C."""
    for path in (*PAGES, ROOT / "pyproject.toml", *ROOT.glob("packaging/*.sh")):
        assert not re.search(r"-C\s+\"?cmake\.", path.read_text()), path


def test_reference_is_what_the_docstrings_say() -> None:
    run(sys.executable, ROOT / "docs/reference.py", "--check", cwd=ROOT)


def test_the_conda_recipe_is_of_this_version() -> None:
    number = int(re.search(r"define SDTW_VERSION (\d+)", (ROOT / "include/sdtw.h").read_text())[1])
    (version,) = re.findall(r'^  version: "(.*)"$', (ROOT / "packaging/conda/recipe.yaml").read_text(), re.M)
    assert version == f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def test_the_conda_recipe_asks_for_what_pip_does() -> None:
    recipe, project = (
        re.findall(r"([\w-]+) ?>=([\d.]+)", (ROOT / path).read_text())
        for path in ("packaging/conda/recipe.yaml", "pyproject.toml")
    )
    wanted = {name: least for name, least in project if name in {"numpy", "pybind11", "scikit-build-core"}}
    assert {name: least for name, least in recipe if name in wanted} == wanted


@pytest.mark.parametrize("cuda", [False, True])
def test_the_static_conan_package_has_what_the_library_links(
    cuda: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CUDA its runtime as well. Conan itself is in no environment of the tests."""
    for name in ("conan", "conan.tools", "conan.tools.cmake", "conan.tools.files"):
        monkeypatch.setitem(sys.modules, name, MagicMock(ConanFile=object))
    recipe = runpy.run_path(str(ROOT / "packaging/conan/conanfile.py"))["SdtwConan"]()
    recipe.options, recipe.cpp_info = SimpleNamespace(shared=False, cuda=cuda), MagicMock()
    recipe.package_info()
    assert ("cudart_static" in recipe.cpp_info.libs) == ("rt" in recipe.cpp_info.system_libs) == cuda
