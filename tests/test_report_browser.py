"""The page in a real browser: Debian's Chromium, without a screen and without a network."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphkin import Graph
from graphkin.experiments.summary import Summary
from graphkin.methods import method_named
from graphkin.report.page import fit_page, reproduction_page
from graphkin.report.tuning import tuning_page
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED, Tried, Tuned
from graphkin.tuning.space import Choice, Range, Space
from tests.test_report import WHERE, run_folder, summary

pytestmark = pytest.mark.browser
BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Browser = Any


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from selenium import webdriver

    assert BROWSER is not None and DRIVER is not None, "deselect these tests (-m 'not browser') where there is no Chromium"
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of both kinds of pages on disk."""
    folder = tmp_path_factory.mktemp("pages")
    tables = summary({"one": 1.0, "two": -1.0})
    tables = Summary(
        tables.experiment, {key: cell for key, cell in tables.cells.items() if key != ("raw features", "two", "test")}
    )
    figure = summary(
        {"one": 1.0}, name="points", protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={}
    )
    graph = communities()
    contents = {
        "reproduction": reproduction_page([figure, tables], [WHERE], "graphkin report"),
        "fit": fit_page(run_folder(folder / "run", graph), graph, command="graphkin report run"),
    }
    for name, text in contents.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in contents}


@pytest.fixture
def open_page(browser: Browser, pages: dict[str, str]) -> Callable[..., Browser]:
    def opened(name: str, width: int = 1200, height: int = 900, scheme: str = "light") -> Browser:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        prefer(browser, scheme)
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(pages[name])
        browser.execute_script("document.querySelector('.plot').scrollIntoView()")  # plots are drawn when they come in sight
        until(browser, "return document.querySelector('.plot .main-svg') !== null")
        return browser

    return opened


def communities() -> Graph:
    """Two labelled groups whose nodes have names that are not to be taken for HTML."""
    draw = np.random.default_rng(0)
    labels = np.arange(40) // 20
    edges = np.argwhere(np.triu(draw.random((40, 40)) < np.where(labels[:, None] == labels, 0.3, 0.03), 1)).T
    x = draw.random((40, 16)) + labels[:, None]
    ids = ["<b>first</b>", *(f"node {number}" for number in range(1, 40))]
    return replace(Graph.from_arrays(x, edges, labels, ids=ids), class_names=("left & up", "right"), name="two groups")


def prefer(browser: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def until(browser: Browser, condition: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(condition))


def one(browser: Browser, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def column(browser: Browser, number: int) -> list[float | None]:
    cells = browser.execute_script(
        """const rows = [...document.querySelectorAll('#table-toy-0 tbody tr')];
        return rows.map((row) => row.cells[arguments[0]].dataset.ours ?? null)""",
        number,
    )
    return [None if cell is None else float(cell) for cell in cells]


@pytest.mark.parametrize("name", ["reproduction", "fit"])
def test_opens_without_errors_and_fetches_nothing(open_page: Callable[..., Browser], pages: dict[str, str], name: str) -> None:
    browser = open_page(name)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    browser.execute_script("scrollTo(0, document.body.scrollHeight)")
    until(browser, "return document.querySelector('footer') !== null")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert {url for url in requests if not url.startswith(("data:", "blob:", "chrome:"))} == {pages[name]}
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_of_a_search(width: int, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "tune.html"
    path.write_text(tuning_page(search(), WHERE, "graphkin fit '<b>'"), encoding="utf-8")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get_log("browser")
    browser.get(path.as_uri())
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(browser.find_elements("css selector", "svg.chart[role=img]")) == 4
    browser.find_elements("css selector", "#table-trials thead button")[1].click()
    first = "return [...document.querySelectorAll('#table-trials tbody th')].map((cell) => cell.textContent.trim())"
    assert browser.execute_script(first) == ["3 best", "4", "1 no search", "2"]


def search() -> Tuned:
    """Four trials: without a search, failed, best, and stopped early."""
    space = Space({"tau": Range(0.1, 1.0, log=True), "beta": Range(0.0, 1.0), "activation": Choice(('"relu"', '"prelu"'))})
    tried = (
        Tried(1, COMPLETE, 70.0, {"tau": 0.4, "beta": 0.7, "activation": "relu"}, 2.0, defaults=True),
        Tried(2, FAILED, None, {"tau": 0.1, "beta": 0.1, "activation": "relu"}, 0.1, failure="the loss became <nan>"),
        Tried(3, COMPLETE, 75.5, {"tau": 0.3, "beta": 0.2, "activation": "prelu"}, 2.0),
        Tried(4, PRUNED, 71.0, {"tau": 0.9, "beta": 0.9, "activation": "prelu"}, 1.0),
    )
    return Tuned(method_named("grace+"), "two <groups>", "labels", "mean validation accuracy", 0, space, tried, {"tau": 1.0})


def test_tables_sort_both_ways_and_back(open_page: Callable[..., Browser]) -> None:
    browser = open_page("reproduction")
    before = column(browser, 1)
    header = browser.find_elements("css selector", "#table-toy-0 thead th")[1]
    button = header.find_element("css selector", "button")
    button.click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column(browser, 1) == sorted(before, key=lambda value: -(value or 0))
    button.send_keys("\n")
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(browser, 1) == sorted(before, key=lambda value: value or 0)
    button.send_keys(" ")
    assert header.get_attribute("aria-sort") == "none"
    assert column(browser, 1) == before


def test_missing_cells_stay_last(open_page: Callable[..., Browser]) -> None:
    browser = open_page("reproduction")
    button = browser.find_elements("css selector", "#table-toy-0 thead button")[2]
    for _ in range(2):
        button.click()
        assert column(browser, 2)[-1] is None


def test_columns_sort_by_what_is_chosen(open_page: Callable[..., Browser]) -> None:
    browser = open_page("reproduction")
    browser.find_elements("css selector", "#table-toy-0 thead button")[1].click()
    one(browser, "select[data-table='table-toy-0'] option[value='published']").click()
    first = one(browser, "#table-toy-0 tbody tr:first-child th").text
    assert first == "Base+", "99 is the highest published value"


def test_pointing_at_a_node_shows_who_it_is(open_page: Callable[..., Browser]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    browser = open_page("fit")
    browser.execute_script("document.querySelector('.map .plot').scrollIntoView({block: 'center'})")
    until(browser, "return document.querySelector('.map .plot')?._fullLayout?.xaxis?._length > 0")
    x, y = browser.execute_script(
        """const plot = document.querySelector('.map .plot'), { xaxis, yaxis } = plot._fullLayout;
        const trace = plot.data.find((one) => one.customdata.includes(0)), place = trace.customdata.indexOf(0);
        const box = plot.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.l2p(trace.x[place]), box.top + yaxis._offset + yaxis.l2p(trace.y[place])]"""
    )
    actions: Any = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(int(x) - 40, int(y) - 40)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    actions.perform()
    until(browser, "return document.querySelector('.tip')?.hidden === false")
    tip = one(browser, ".tip")
    nearest = browser.execute_script(
        "const { names, nearest } = plots.figures.get('map').nodes; return nearest[0].map((n) => names[n])"
    )
    assert tip.find_element("css selector", "b").text == "<b>first</b>"
    assert "left & up" in tip.text
    assert len(nearest) == 5
    assert all(name in tip.text for name in nearest)
    assert len(browser.find_elements("css selector", ".ring")) == 6


def test_nodes_are_found_by_id(open_page: Callable[..., Browser]) -> None:
    browser = open_page("fit")
    field = one(browser, ".find input")
    field.send_keys("node 7\n")
    assert one(browser, ".find output").text.startswith("node 7, left & up; most similar: ")
    assert one(browser, ".tip b").text == "node 7"
    field.clear()
    field.send_keys("nobody\n")
    assert one(browser, ".find output").text == "no such node on the map"
    assert not one(browser, ".tip").is_displayed()


def test_the_legend_hides_and_shows_classes(open_page: Callable[..., Browser]) -> None:
    browser = open_page("fit")
    visible = "return document.querySelector('.map .plot').data.map((trace) => trace.visible)"
    button = one(browser, ".map .legend button")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert browser.execute_script(visible) == [False, True]
    button.click()
    assert browser.execute_script(visible) == [True, True]


@pytest.mark.parametrize("name", ["reproduction", "fit"])
def test_no_sideways_scrolling_on_a_phone(open_page: Callable[..., Browser], name: str) -> None:
    browser = open_page(name, width=390, height=844)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    until(browser, "return document.querySelectorAll('.plot .main-svg').length > 0")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("name", ["reproduction", "fit"])
def test_plots_follow_the_theme(open_page: Callable[..., Browser], name: str) -> None:
    look = """const plot = document.querySelector('.plot.js-plotly-plot');
        const trace = plot.data.findLast((one) => one.marker);
        return [getComputedStyle(document.body).backgroundColor, plot.layout.font.color, trace.marker.color]"""
    browser = open_page(name)
    light = browser.execute_script(look)
    prefer(browser, "dark")
    until(browser, "return document.documentElement.dataset.theme === 'dark'")
    dark = browser.execute_script(look)
    assert all(before != after for before, after in zip(light, dark, strict=True))
    one(browser, "#theme").click()
    assert browser.execute_script(look) == light


@pytest.mark.parametrize("name", ["reproduction", "fit"])
def test_prints_in_light_colours_with_everything_open(open_page: Callable[..., Browser], name: str) -> None:
    browser = open_page(name, scheme="dark")
    browser.execute_script(
        """theme.listeners.push((wish) => {
          if (wish?.all) window.printed = {
            undrawn: document.querySelectorAll('.plot:not(.js-plotly-plot)').length,
            closed: document.querySelectorAll('details:not([open])').length,
            colour: document.querySelector('.plot').layout.font.color,
          };
        })"""
    )
    found = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert base64.b64decode(found["data"]).startswith(b"%PDF")
    assert browser.execute_script("return window.printed") == {"undrawn": 0, "closed": 0, "colour": "#1d2127"}
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
