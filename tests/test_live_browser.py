"""The live page in a real browser; screenshots of every look are kept in out/."""

import contextlib
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.live import LiveView
from hebbnmf.live.demo import SHAPE, natural_patches
from hebbnmf.preprocessing import transform_rows

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"
)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
# One browser at a time: several at once on two cores only wait for each other.
FLAGS = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
FLAGS = [f"--{flag}" for flag in (FLAGS + " disable-component-update disable-sync").split()]
# Seconds: kernels may have to be compiled first.
PATIENCE = 180
OUT = Path(__file__).parents[1] / "out"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, view, *, viewport=DESK, theme="dark"):
    """Open the page; at the end there was no error, and no request to anywhere else."""
    context = browser.new_context(viewport=viewport, color_scheme=theme, accept_downloads=True)
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((view.url, "data:", "blob:")) or problems.append(request.url)
        ),
    )
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(view.url)
    yield page
    context.close()
    assert problems == []


@contextlib.contextmanager
def learning(view, chunks):
    """Let the model learn in a thread, until the end of the block."""
    is_over = threading.Event()

    def run():
        for chunk in chunks:
            if is_over.is_set():
                return
            view.partial_fit(chunk)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        view.resume()
        thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def patches():
    rows, steps = natural_patches()
    X = transform_rows(steps, rows[:20_000])
    return [X[i : i + 72] for i in range(0, len(X) - 72, 72)] * 20


def wait_for(page, condition):
    """Wait for a condition; wait_for_function would evaluate it where our policy forbids that."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def wait_for_unit(page, unit):
    """Wait until a unit is shown: the page draws what was chosen with its next frame."""
    wait_for(page, f"document.getElementById('unit-title').textContent == 'Unit {unit}'")


def wait_for_drawing(page):
    """Wait until what came last is drawn."""
    next_frame = "new Promise((done) => requestAnimationFrame(done))"
    for _ in range(2):
        page.evaluate(next_frame)


def wait_for_end(page, n_samples):
    """Wait until the last state of the model is drawn: that it is over is told before."""
    wait_for(page, "document.getElementById('state').dataset.state == 'ended'")
    wait_for(page, f"document.getElementById('n-samples').textContent == '{n_samples:,}'")
    wait_for_drawing(page)


def picture_of(page, name):
    return page.evaluate(f"document.getElementById('{name}').toDataURL()")


def screenshot(page, name):
    OUT.mkdir(exist_ok=True)
    wait_for_drawing(page)
    page.wait_for_timeout(300)
    page.screenshot(path=OUT / f"live-{name}.png")


def test_a_network_of_filters_grows_and_can_be_played_with(browser, patches):
    model = OnlineSNMF(64)
    with (
        LiveView(model, shape=SHAPE, speed=1500.0, port=0) as view,
        learning(view, patches),
        opened(browser, view) as page,
    ):
        # Tiles grow.
        wait_for(page, "document.getElementById('n-units').textContent > 0")
        wait_for_drawing(page)
        before = picture_of(page, "field")
        wait_for(page, "document.getElementById('n-units').textContent == 64")
        wait_until(lambda: picture_of(page, "field") != before)
        wait_for_drawing(page)
        # A click shows a unit, and the unit that was clicked.
        assert not page.is_visible("#unit")
        page.click("#field", position={"x": 40, "y": 40})
        wait_for_unit(page, 0)
        assert page.inner_text("#unit-facts dd") == str(model.unit_births_[0])
        # A slider changes the model.
        page.fill("#memory", str(int(page.input_value("#memory")) + 1))
        wait_for(page, "document.getElementById('memory-value').textContent.includes('20')")
        wait_until(lambda: model.learner_.settings.memory == 0.2)
        # Space pauses, a step learns 72 samples.
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Space")
        wait_for(page, "document.getElementById('state').dataset.state == 'paused'")
        n_seen = model.n_samples_seen_
        page.click("#step")
        wait_until(lambda: model.n_samples_seen_ == n_seen + 72)
        wait_for(page, f"document.getElementById('n-samples').textContent == '{n_seen + 72:,}'")
        wait_for_drawing(page)
        # A click on a unit that inhibits the chosen one chooses that one; so do keys.
        wait_for(page, "document.querySelectorAll('.inhibitors button').length > 0")
        screenshot(page, "unit")
        label = page.get_attribute(".inhibitors button", "aria-label")
        strongest = int(re.match(r"unit (\d+), weight", label)[1])
        M = model.lateral_weights_
        assert M[0, strongest] >= M[0].max() - M.max() / 255  # as finely as weights are sent
        page.click(".inhibitors button")
        wait_for_unit(page, strongest)
        page.focus("#field")
        page.keyboard.press("Escape")
        page.wait_for_selector("#unit", state="hidden")
        page.keyboard.press("ArrowRight")
        wait_for_unit(page, 0)
        page.keyboard.press("ArrowRight")
        wait_for_unit(page, 1)
        assert page.text_content("#chosen").startswith("unit 1, born at sample")
        page.click("#pause")
        wait_until(lambda: model.n_samples_seen_ > n_seen + 72)


def test_the_page_can_be_taken_along_as_one_file(browser, patches, tmp_path):
    with LiveView(OnlineSNMF(16), shape=SHAPE, port=0) as view, opened(browser, view) as page:
        for chunk in patches[:20]:
            view.partial_fit(chunk)
        view.end()
        wait_for_end(page, 1440)
        with page.expect_download() as download:
            page.click("#snapshot")
        download.value.save_as(tmp_path / "hebbnmf.html")
        with page.expect_download() as download:
            page.click("#picture")
        download.value.save_as(tmp_path / "hebbnmf.png")
    html = (tmp_path / "hebbnmf.html").read_text()
    assert "<script" not in html
    assert "<link" not in html
    assert view.url not in html
    assert html.count("data:image/png") >= 7
    assert (tmp_path / "hebbnmf.png").read_bytes().startswith(b"\x89PNG")
    context = browser.new_context(offline=True, viewport=DESK)
    page = context.new_page()
    page.goto((tmp_path / "hebbnmf.html").as_uri())
    assert page.inner_text("#n-samples") == "1,440"
    assert page.evaluate("[...document.images].filter((i) => i.src && !i.naturalWidth).length") == 0
    screenshot(page, "snapshot")
    context.close()


def test_before_the_first_sample_the_page_says_what_it_waits_for(browser):
    with LiveView(OnlineSNMF(16), shape=SHAPE, port=0) as view, opened(browser, view) as page:
        wait_for(page, "document.getElementById('source').textContent == 'a stream'")
        wait_for_drawing(page)
        assert page.get_attribute("#state", "data-state") == "waiting"
        before = picture_of(page, "field")
        with event.trigger_event("numba:compile", data={}):
            wait_for(page, "/: [1-9]/.test(document.getElementById('compiling').textContent)")
            wait_until(lambda: picture_of(page, "field") != before)
            screenshot(page, "compiling")
        wait_for(page, "document.getElementById('compiling').textContent == ''")
        page.click("#pause")
        wait_for(page, "document.getElementById('state').dataset.state == 'paused'")
        page.click("#save")
        wait_for(
            page, "document.getElementById('toast').textContent.startsWith('Not saved: nothing')"
        )


LOOKS = [(DESK, "dark", "desk"), (DESK, "light", "desk-light"), (PHONE, "dark", "phone")]


@pytest.mark.parametrize(("viewport", "theme", "name"), LOOKS)
@pytest.mark.parametrize("kind", ["filters", "plane", "bars"])
def test_every_look_fits_its_screen(browser, patches, viewport, theme, name, kind):
    shape = SHAPE if kind == "filters" else None
    rng = np.random.default_rng(0)
    X = {
        "filters": np.concatenate(patches[:150]),
        "plane": make_sparse_sources(1500, 2, random_state=0),
        "bars": rng.standard_normal((1500, 1)) * [[1.0, -1, 0.5, 0, 2]]
        + 0.3 * rng.standard_normal((1500, 5)),
    }[kind]
    n_units = {"filters": 64, "plane": 4, "bars": 4}[kind]
    with (
        LiveView(OnlineSNMF(n_units), shape=shape, name=kind, port=0) as view,
        opened(browser, view, viewport=viewport, theme=theme) as page,
    ):
        view.partial_fit(X)
        view.end()
        wait_for_end(page, len(X))
        screenshot(page, f"{kind}-{name}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"]
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        named = "document.querySelectorAll('canvas:not([aria-label]):not(.inhibitors canvas)')"
        assert page.evaluate(f"{named}.length") == 0


def test_a_page_that_loses_the_server_says_so_and_keeps_the_picture(browser, patches):
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    with LiveView(OnlineSNMF(16), shape=SHAPE, port=0) as view:
        page.goto(view.url)
        for chunk in patches[:5]:
            view.partial_fit(chunk)
        view.end()
        wait_for(page, "document.getElementById('n-units').textContent == 16")
    wait_for(page, "document.getElementById('state').dataset.state == 'lost'")
    assert page.inner_text("#n-units") == "16"
    context.close()
