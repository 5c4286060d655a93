"""A headless Chromium of the system and a server of build/site, for the site's tests.

python docs/site/browser.py FOLDER [PAGE...]    pictures of pages, on a desktop and on a phone
"""

import base64
import contextlib
import functools
import http.server
import itertools
import json
import shutil
import sys
import threading
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

SITE = Path(__file__).resolve().parents[2] / "build/site"
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve():
    """The address of a server of the built site."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def open_browser():
    options = Options()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    # Without a sandbox, which containers do not allow; no name but the server's address is resolved.
    for argument in (
        "--headless=new --no-sandbox --disable-dev-shm-usage --disable-gpu --hide-scrollbars "
        "--disable-background-networking --disable-component-update --no-first-run"
    ).split():
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()


def resize(browser, device):
    width, height = WIDTHS[device]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": device == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser, scheme):
    """Whether the reader's system is dark or light; forgets what the reader chose on the site."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    if browser.current_url.startswith("http"):
        time.sleep(0.3)  # the page that is open may take note of the change
        browser.execute_script("localStorage.clear()")


def requests(browser):
    """Addresses that the browser has asked for since the last call."""
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


# What scripts draw is there: diagrams and charts have their SVG.
DRAWN = """
return document.readyState === "complete"
  && [...document.querySelectorAll(".diagram")].every((box) => box.querySelector("svg"))
  && [...document.querySelectorAll(".chart")].every((box) => box.querySelector(".main-svg .trace"))
"""


def visit(browser, address):
    """Opens a page and waits for what its scripts draw; whether that came about."""
    browser.get(address)
    for _ in range(100):
        if browser.execute_script(DRAWN):
            return True
        time.sleep(0.1)
    return False


def picture(browser, path):
    """A picture of the whole page."""
    height = browser.execute_script("return document.documentElement.scrollHeight")
    width = browser.execute_script("return window.innerWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 6000), "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip, "format": "png"}
    )
    path.write_bytes(base64.b64decode(shot["data"]))


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with serve() as address:
        for device, scheme in itertools.product(WIDTHS, ("light", "dark")):
            with open_browser() as browser:  # a reader who comes for the first time
                resize(browser, device)
                prefer(browser, scheme)
                for page in sys.argv[2:] or ["index.html"]:
                    visit(browser, f"{address}/{page}")
                    picture(browser, folder / f"{page.replace('/', '-')}-{device}-{scheme}.png")


if __name__ == "__main__":
    main()
