"""The built site in a real browser, which reaches nothing but it: ./dev docs --check."""

import re
import urllib.parse
from html.parser import HTMLParser

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import browser as tools

PAGES = sorted(path.relative_to(tools.SITE).as_posix() for path in tools.SITE.rglob("*.html"))
WAIT = 20  # seconds, of which a loaded machine needs a few


class Page(HTMLParser):
    """Links, anchors, and how many titles and pictures without words a page has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), {""}
        self.titles = self.wordless = 0
        self.feed((tools.SITE / path).read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes.get("id"), attributes.get("name")}
        self.titles += tag == "h1"
        self.wordless += tag == "img" and not attributes.get("alt")
        self.links |= {attributes[key] for key in ("href", "src") if attributes.get(key)}


@pytest.fixture(scope="session")
def address():
    with tools.serve() as address:
        yield address


@pytest.fixture(scope="session")
def session():
    with tools.open_browser() as session:
        yield session


@pytest.fixture
def browser(session):
    tools.resize(session, "desktop")
    tools.prefer(session, "light")
    session.get_log("browser")
    tools.requests(session)
    return session


def test_there_are_pages():
    assert len(PAGES) > 20


def test_every_page_has_a_title_and_words_for_its_pictures():
    pages = {path: Page(path) for path in PAGES}
    assert not [path for path, page in pages.items() if page.titles != 1 or page.wordless]


def test_no_link_is_dead():
    pages = {path: Page(path) for path in PAGES}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or path == "404.html":
                continue
            target = urllib.parse.unquote(urllib.parse.urljoin(f"/{path}", parts.path)).removeprefix("/")
            target = "index.html" if target in ("", ".") else target
            found = (tools.SITE / target).is_file()
            if not found or (target in pages and parts.fragment not in pages[target].anchors):
                dead.append(f"{path}: {link}")
    assert not dead


def test_the_reference_has_all_of_the_header():
    header = (tools.SITE.parents[1] / "include/sdtw.h").read_text()
    declared = re.findall(r"^SDTW_API .*?(\w+)\(|^} (sdtw_\w+);|^  (SDTW_\w+) = ", header, re.M)
    names = {name for found in declared for name in found if name}
    assert len(names) > 40
    missing = names - Page("c-reference.html").anchors
    assert not missing


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_every_page_is_whole(browser, address, device):
    """Diagrams, charts and pictures are there, the page fits the screen, nothing is fetched elsewhere."""
    tools.resize(browser, device)
    wrong = []
    for path in PAGES:
        if not tools.visit(browser, f"{address}/{path}"):
            wrong.append(f"{path}: a diagram or a chart was not drawn")
        lazy = "for (const i of document.images) i.loading = 'eager'; return document.images.length"
        if browser.execute_script(lazy):
            loaded = "return [...document.images].every((image) => image.complete)"
            WebDriverWait(browser, WAIT).until(lambda b, done=loaded: b.execute_script(done))
        broken = "return [...document.images].filter((i) => !i.naturalWidth).map((i) => i.src)"
        wrong += [f"{path}: no picture {source}" for source in browser.execute_script(broken)]
        width = browser.execute_script("return document.documentElement.scrollWidth")
        if width > tools.WIDTHS[device][0]:
            wrong.append(f"{path}: {width} pixels wide")
        wrong += [f"{path}: {entry['message']}" for entry in browser.get_log("browser")]
    local = (f"{address}/", "data:", "blob:", "about:", "chrome:")
    wrong += [f"asked for {url}" for url in tools.requests(browser) if not url.startswith(local)]
    assert not wrong


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("negative", "faq.html"),
        ("sdtw_backward", "c-reference.html"),
        ("cdist", "pytorch.html"),
        ("barycenter", "pytorch.html"),
        ("itakura", "c-reference.html"),
        ("CUDA graph", "pytorch.html"),
    ],
)
def test_search_finds(browser, address, query, page):
    browser.get(f"{address}/numerics.html")
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    box.click()
    box.send_keys(query)
    # Results come as one types: links are read in one go, or they may be gone when they are asked.
    results = ".md-search-result__item > a.md-search-result__link"
    read = f"return [...document.querySelectorAll('{results}')].map((link) => new URL(link.href).pathname)"
    WebDriverWait(browser, WAIT).until(lambda b: f"/{page}" in b.execute_script(read))
    box.send_keys(Keys.ENTER)
    WebDriverWait(browser, WAIT).until(
        lambda b: "numerics.html" not in b.current_url or "h=" in b.current_url
    )


def test_a_phone_can_search(browser, address):
    tools.resize(browser, "phone")
    browser.get(f"{address}/index.html")
    browser.find_element(By.CSS_SELECTOR, "label.md-header__button[for=__search]").click()
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    WebDriverWait(browser, WAIT).until(lambda b: box.is_displayed() and box.rect["x"] >= 0)
    box.send_keys("fork")
    result = "a.md-search-result__link[href*=faq]"
    WebDriverWait(browser, WAIT).until(lambda b: b.find_elements(By.CSS_SELECTOR, result))


def test_a_phone_finds_all_sections(browser, address):
    tools.resize(browser, "phone")
    browser.get(f"{address}/index.html")
    browser.find_element(By.CSS_SELECTOR, "label.md-header__button[for=__drawer]").click()
    drawer = browser.find_element(By.CSS_SELECTOR, ".md-nav--primary")
    WebDriverWait(browser, WAIT).until(lambda b: "Gallery" in drawer.text)
    for section in ("Getting started", "Gallery", "Guides", "Performance", "C reference", "Development"):
        assert section in drawer.text


def test_diagrams_have_their_nodes_in_both_palettes(browser, address):
    path = "cuda-design.html"
    page = (tools.SITE.parents[1] / "docs/cuda-design.md").read_text()
    diagrams = re.findall(r"^```mermaid\n(.*?)^```", page, re.M | re.S)
    expected = [len(set(re.findall(r"(\w+)(?=\[|\{|\(\[)", one))) for one in diagrams]
    nodes = "return [...document.querySelectorAll('.diagram')].map((d) => d.querySelectorAll('.node').length)"
    label = "return getComputedStyle(document.querySelector('.diagram .nodeLabel')).color"
    assert tools.visit(browser, f"{address}/{path}")
    assert len(expected) == 2
    assert min(expected) > 5
    assert browser.execute_script(nodes) == expected
    light = browser.execute_script(label)
    browser.find_element(By.CSS_SELECTOR, "form[data-md-component=palette] label:not([hidden])").click()
    WebDriverWait(browser, WAIT).until(lambda b: b.execute_script(label) != light)
    assert browser.execute_script(nodes) == expected


def test_charts_tell_what_a_point_is(browser, address):
    assert tools.visit(browser, f"{address}/performance.html")
    plot = browser.find_element(By.CSS_SELECTOR, ".chart-plot")
    browser.execute_script("Plotly.Fx.hover(arguments[0], [{curveNumber: 0, pointNumber: 0}])", plot)
    told = browser.find_element(By.CSS_SELECTOR, ".chart-plot .hoverlayer").text
    assert re.search(r"libsdtw, 128 steps, d = 1\D*[\d.]+ million cells/s", told)


def test_code_can_be_copied(browser, address):
    browser.get(f"{address}/numpy.html")
    buttons = browser.find_elements(By.CSS_SELECTOR, ".md-code__button[data-md-type=copy]")
    assert len(buttons) >= 2
