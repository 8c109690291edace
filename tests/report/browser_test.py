"""browser_test.py - reports in headless Chromium: every figure renders with all of its text inside, no request leaves
the page, no script of a hostile file runs, and neither a phone nor a screen has to be scrolled sideways.

The page comes from a server here that keeps what is asked of it. TR_SHOTS=FOLDER keeps screenshots and a printed page.
"""
import base64
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

import fixtures
import tap

try:
    import jsonschema  # noqa: F401
    import matplotlib  # noqa: F401
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError as error:
    tap.skip_all(f"{error} (Debian packages python3-matplotlib, python3-jsonschema, python3-selenium)")

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="treering-browser-"))
SHOTS = os.environ.get("TR_SHOTS")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
)
SCREENS = {"a phone": (390, 844, True), "a screen": (1280, 900, False)}

# what the page says of itself: figures, sizes, texts outside their drawing, elements that must not be there
LOOK = """
const shown = [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 0);
const boxes = shown.map(s => s.getBoundingClientRect());
const outside = [];
shown.forEach((s, i) => s.querySelectorAll('text').forEach(t => {
    const r = t.getBoundingClientRect(), b = boxes[i];
    if (r.left < b.left - 2 || r.right > b.right + 2 || r.top < b.top - 2 || r.bottom > b.bottom + 2)
        outside.push(s.getAttribute('aria-label') + ': ' + t.textContent);
}));
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
return {
    figures: document.querySelectorAll('figure').length, drawings: shown.length,
    least: Math.min(...boxes.map(b => Math.min(b.width, b.height)), 1e9),
    empty: shown.filter(s => s.querySelectorAll('path, use').length < 3).length,
    nameless: [...document.querySelectorAll('svg')]
        .filter(s => s.getAttribute('role') !== 'img' || !s.getAttribute('aria-label')).length,
    outside: outside, twice: ids.length - new Set(ids).size,
    dangling: [...document.querySelectorAll('use, a')]
        .map(e => e.getAttribute('href')).filter(h => !document.getElementById(h.slice(1))),
    width: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
    white: shown.flatMap(s => [...s.querySelectorAll('path')]).filter(p => p.getBoundingClientRect().width > 100
        && getComputedStyle(p).fill === 'rgb(255, 255, 255)' && getComputedStyle(p).opacity > 0).length,
    foreign: document.querySelectorAll('script, img, iframe, object, embed, form, base, link:not([rel=icon])').length,
    broken: typeof window.bad, height: document.body.scrollHeight,
    blank: [...document.querySelectorAll('h2, h3, td, th, li')].filter(e => !e.textContent.trim()).length,
};
"""


class Recorder(http.server.SimpleHTTPRequestHandler):
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *arguments):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Recorder, directory=str(WORK)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={WORK}/profile"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


def make(name, files):
    """A report of the files; its path on the server."""
    page = f"{name.replace(' ', '-')}.html"
    ran = subprocess.run(
        [tap.BUILD / "treering", "report", *files, "-o", WORK / page],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    tap.ok(ran.returncode == 0 and not ran.stderr, f"{name}: a report", ran.stderr, f"exit code {ran.returncode}")
    return page


def requests(browser):
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def look(browser, address, page, screen):
    width, height, mobile = SCREENS[screen]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
    )
    requests(browser), browser.get_log("browser")
    Recorder.asked.clear()
    browser.get(f"{address}/{page}")
    seen = browser.execute_script(LOOK)
    seen["requests"] = [url for url in requests(browser) if not url.startswith("data:")]
    seen["console"] = [entry["message"] for entry in browser.get_log("browser")]
    seen["asked"] = list(Recorder.asked)
    if SHOTS:
        shoot(browser, f"{page[:-5]}-{screen.split()[-1]}", width, seen["height"])
    return seen


def shoot(browser, name, width, height):
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 15000), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    pathlib.Path(SHOTS, f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def judge(name, screen, seen, address, page, least_figures):
    where = f"{name}, {screen}"
    tap.ok(
        seen["figures"] >= least_figures and seen["drawings"] == seen["figures"],
        f"{where}: each of {seen['figures']} figures is drawn once",
        seen,
    )
    tap.ok(
        seen["least"] > 100 and not seen["empty"] and not seen["nameless"],
        f"{where}: none is empty or without a name",
        seen,
    )
    tap.same(seen["white"], 0, f"{where}: no white ground, which would not go dark with the page")
    tap.same(seen["outside"], [], f"{where}: all text is inside its figure")
    tap.same((seen["twice"], seen["dangling"]), (0, []), f"{where}: ids are unique and found")
    width = SCREENS[screen][0]
    tap.ok(seen["width"] <= width, f"{where}: nothing to scroll sideways", f"{seen['width']} of {width} pixels")
    tap.same(
        (seen["foreign"], seen["broken"], seen["blank"]),
        (0, "undefined", 0),
        f"{where}: no script, no picture from outside, nothing blank",
    )
    tap.same(
        (seen["asked"], seen["requests"]),
        ([f"/{page}"], [f"{address}/{page}"]),
        f"{where}: no request but for the page",
    )
    tap.same(seen["console"], [], f"{where}: nothing in the console")


def check(browser, address, name, files, least_figures):
    page = make(name, files)
    if not (WORK / page).exists():
        return page
    for screen in SCREENS:
        judge(name, screen, look(browser, address, page, screen), address, page, least_figures)
    return page


def check_print(browser, address, page):
    browser.get(f"{address}/{page}")
    content = base64.b64decode(
        browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})["data"]
    )
    if SHOTS:
        pathlib.Path(SHOTS, f"{page[:-5]}.pdf").write_bytes(content)
    pages = content.count(b"/Type /Page\n") + content.count(b"/Type /Page/")
    tap.ok(content.startswith(b"%PDF") and 2 <= pages <= 40, "it prints", f"{pages} pages")


def check_recorder(browser, address):
    """The watchers see a request that is made: without this, the tests above could not fail."""
    (WORK / "leaky.html").write_text(
        '<!DOCTYPE html><svg width="9"></svg><img src="/leak.png"><p style="width:3000px">.</p>', encoding="utf-8"
    )
    seen = look(browser, address, "leaky.html", "a phone")
    tap.ok(
        "/leak.png" in seen["asked"]
        and len(seen["requests"]) > 1
        and seen["console"]
        and seen["foreign"] == 1
        and seen["width"] >= 3000,
        "the watchers notice a page that does all that",
        seen,
    )


def run(browser, address):
    check_recorder(browser, address)
    kept = [
        tap.SOURCE / "results" / name
        for name in ("xeon-2-of-16-cores/allreduce_registered.json", "h200-8-ranks-mps/allreduce.json")
    ]
    page = check(browser, address, "two machines", kept, 7)
    check_print(browser, address, page)
    check(browser, address, "a model", [kept[0], tap.SOURCE / "tests" / "data" / "model_v1.json"], 5)
    for name, data in fixtures.ALL.items():
        path = WORK / "fixture.json"
        path.write_text(json.dumps(data()), encoding="utf-8")
        check(browser, address, name, [path], 0 if name in ("no points", "nothing measured") else 1)


def main():
    if not CHROMIUM or not DRIVER:
        tap.skip_all("no chromium and chromedriver in PATH (Debian packages chromium, chromium-driver)")
    address = serve()
    browser = start_browser()
    try:
        run(browser, address)
    finally:
        browser.quit()
        shutil.rmtree(WORK, ignore_errors=True)
    tap.done()


main()
