"""Open every page of the built site in chromium, as a reader on a phone does, from the file system.

Nothing may be asked of another host, no script may fail, no page may be wider than its screen, and
the search must find. Screenshots of some pages are left in docs/_build/looks.
"""

import shutil
import sys
from pathlib import Path

SITE = Path(__file__).parent / "_build" / "html"
LOOKS = Path(__file__).parent / "_build" / "looks"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
LOOKED_AT = ("index", "parameters", "five_minutes", "practice", "mathematics", "benchmarks")
LOOKED_AT += ("gallery/index", "generated/hebbnmf.OnlineSNMF", "gallery/streams/drift")


def problems_of(page, path):
    """Open a page, and return what is wrong with it."""
    found = []

    def hear(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            found.append(f"asks for {request.url}")

    def fail(error):
        found.append(f"script fails: {error}")

    page.on("request", hear)
    page.on("pageerror", fail)
    page.goto(path.as_uri())
    if page.evaluate("Boolean(window.MathJax?.startup?.promise)"):
        page.evaluate("MathJax.startup.promise")
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > page.viewport_size["width"]:
        found.append(f"is wider than its screen: {width} pixels")
    page.remove_listener("request", hear)
    page.remove_listener("pageerror", fail)
    return [f"{path}: {problem}" for problem in found]


def search(page):
    """Search the site from the file system, and return what is wrong."""
    page.goto((SITE / "search.html").as_uri() + "?q=recycle")
    try:
        page.wait_for_selector("#search-results li a", timeout=20_000)
    except Exception as error:
        return [f"search: {error}"]
    return []


def main():
    """Open all pages, and return what is wrong."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.stderr.write("No chromium on this machine: the pages are not opened in a browser.\n")
        return []
    from playwright.sync_api import sync_playwright

    problems = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=PHONE)
        for path in sorted(SITE.rglob("*.html")):
            name = path.relative_to(SITE).with_suffix("").as_posix()
            if name.startswith(("_modules", "_static")):
                continue
            problems += problems_of(page, path)
            if name in LOOKED_AT:
                LOOKS.mkdir(exist_ok=True)
                for viewport, kind in ((PHONE, "phone"), (DESK, "desk")):
                    page.set_viewport_size(viewport)
                    page.screenshot(path=LOOKS / f"{name.replace('/', '-')}-{kind}.png")
                page.set_viewport_size(PHONE)
        problems += search(page)
        browser.close()
    return problems


if __name__ == "__main__":
    sys.exit("\n".join(main()) or None)
