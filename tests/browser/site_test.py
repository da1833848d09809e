"""The documentation site, opened from its files: search, no network, narrow and wide, light and dark."""

import json
import os
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("DABKE_SITE", ROOT / "build" / "site")).resolve()

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="./quickstart docs builds the site"
)


def pages():
    return sorted(SITE.rglob("*.html"))


@pytest.fixture
def site(browser):
    browser.set_window_size(1400, 900)
    browser.get_log("browser")
    browser.get(SITE.joinpath("index.html").as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def results_for(site, words):
    site.get(SITE.joinpath("index.html").as_uri())
    site.execute_script("document.querySelector('[data-md-toggle=search]').click()")
    field = site.find_element(By.CSS_SELECTOR, "input.md-search__input")
    WebDriverWait(site, 20).until(lambda _: field.is_displayed())
    field.send_keys(words)
    WebDriverWait(site, 20).until(lambda _: site.find_elements(By.CSS_SELECTOR, ".md-search-result__item"))
    return site.execute_script(
        "return [...document.querySelectorAll('.md-search-result__link')]"
        ".map(each => each.href.replace(/[?][^#]*/, ''))"
    )


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("dabke_allreduce", "reference/c.html"),
        ("--fusion-threshold", "reference/flags.html"),
        ("DABKE_TIMELINE", "configuration.html#dabke_timeline"),
        ("hang", "tutorials/hang.html"),
        ("NCCL", "gpu.html"),
        ("elastic", "elastic.html"),
        ("allgather_object", "reference/python.html"),
    ],
)
def test_the_search_box_finds(site, words, page):
    assert any(result.endswith(page) for result in results_for(site, words))


def test_no_page_asks_the_network_for_anything(site):
    """Every element that the browser loads by itself has a path, not an address."""
    loaded = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for mark in (
            'src="http',
            "src='http",
            '@import url("http',
            'rel="stylesheet" href="http',
            "preconnect",
        ):
            if mark in text:
                loaded.append((path.name, mark))
    assert loaded == []


def test_pages_open_without_an_error(site):
    for name in ("index", "tutorials/c", "reference/c", "reference/python", "configuration", "timeline"):
        site.get(SITE.joinpath(f"{name}.html").as_uri())
        assert site.find_element(By.TAG_NAME, "h1").text
        images = site.execute_script(
            "return [...document.images].filter(each => each.complete && each.naturalWidth === 0)"
            ".map(each => each.src)"
        )
        assert images == []
    severe = [entry["message"] for entry in site.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


def open_page(site, name, scheme):
    """Opens a page. The theme keeps the last scheme, and may still write it when the next one opens."""

    def opened(_):
        site.execute_script("localStorage.clear()")
        site.get(SITE.joinpath(f"{name}.html").as_uri())
        return site.execute_script("return document.body.dataset.mdColorScheme") == scheme

    WebDriverWait(site, 20).until(opened)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_narrow_and_wide_in_both_schemes(site, width, scheme, tmp_path):
    site.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    site.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        for name in ("index", "tutorials/pytorch", "reference/c", "configuration", "coming-from"):
            open_page(site, name, "slate" if scheme == "dark" else "default")
            sizes = site.execute_script(
                "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert sizes[0] <= sizes[1], f"{name} is wider than the window: {json.dumps(sizes)}"
            site.save_screenshot(str(tmp_path / f"site-{name.replace('/', '-')}-{width}-{scheme}.png"))
    finally:
        site.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
