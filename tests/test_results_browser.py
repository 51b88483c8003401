"""Pages of results and of searches in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphkin.experiments.summary import Summary
from graphkin.methods import method_named
from graphkin.report.page import reproduction_page
from graphkin.report.tuning import tuning_page
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED, Tried, Tuned
from graphkin.tuning.space import Choice, Range, Space
from tests.browsing import Browser, errors, every, one, point_at, prefer, requested, until, visit
from tests.reports import WHERE, summary
from tests.wording import told

pytestmark = pytest.mark.browser
CENTRE = """document.querySelector(arguments[0]).scrollIntoView({ block: 'center' });
    const box = document.querySelector(arguments[0]).getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2]"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = summary({"one": 1.0, "two": -1.0})
    tables = Summary(
        tables.experiment, {key: cell for key, cell in tables.cells.items() if key != ("raw features", "two", "test")}
    )
    figure = summary(
        {"one": 1.0}, name="points", protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={}
    )
    path = tmp_path_factory.mktemp("pages") / "results.html"
    path.write_text(reproduction_page([figure, tables], [WHERE], "graphkin report"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def results(browser: Browser, address: str) -> Browser:
    return visit(browser, address)


def column(browser: Browser, number: int) -> list[float | None]:
    cells = browser.execute_script(
        """const rows = [...document.querySelectorAll('#table-toy-0 tbody tr')];
        return rows.map((row) => row.cells[arguments[0]].dataset.ours ?? null)""",
        number,
    )
    return [None if cell is None else float(cell) for cell in cells]


def test_opens_without_errors_and_fetches_nothing(results: Browser, address: str) -> None:
    results.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    results.execute_script("scrollTo(0, document.body.scrollHeight)")
    assert errors(results) == []
    assert requested(results) == {address}


def test_the_summary_comes_first(results: Browser) -> None:
    assert every(results, "main table")[0].get_attribute("id") == "glance"
    row = one(results, "#glance tbody tr:nth-child(2)").text
    assert told(row, "Base+", "Base", "2 ▲")


def test_the_rest_of_a_cell_comes_by_pointer_and_by_keys(results: Browser) -> None:
    x, y = results.execute_script(CENTRE, "#table-toy-0 tbody tr:nth-child(3) td")
    point_at(results, x, y)
    tip = one(results, ".tip.floating")
    assert told(tip.text, "4 seeds", "gain", "+1.00", "paper", "99.00 ± 0.50", "to paper")
    point_at(results, 5, 5)
    assert not tip.is_displayed()
    keys = {"down": "\ue015", "right": "\ue014", "up": "\ue013", "escape": "\ue00c"}
    results.execute_script("document.querySelector('#table-toy-0 td[tabindex=\"0\"]').focus()")
    assert "gain" in tip.text
    for key in ("down", "down", "right"):
        results.switch_to.active_element.send_keys(keys[key])
    assert told(tip.text, "gain", "−1.00")
    assert results.execute_script("return document.querySelectorAll('#table-toy-0 td[tabindex=\"0\"]').length") == 1
    results.switch_to.active_element.send_keys(keys["escape"])
    assert not tip.is_displayed()


def test_points_of_charts_say_what_they_are(results: Browser) -> None:
    x, y = results.execute_script(CENTRE, "#figure-points-points [data-entry='1'] [data-at]")
    point_at(results, x + 3, y)
    assert told(one(results, ".tip.floating").text, "Base+: 81.00 ±", "n = 4")


def test_loss_curves_say_epoch_and_loss(results: Browser) -> None:
    results.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    x, y = results.execute_script(
        """const line = document.querySelector('#figure-loss-toy .line[data-name]');
        line.scrollIntoView({ block: 'center' });
        const [x, y] = line.getAttribute('d').slice(1).split('L')[1].split(' ').map(Number);
        const place = new DOMPoint(x, y).matrixTransform(line.ownerSVGElement.getScreenCTM());
        return [place.x, place.y]"""
    )
    point_at(results, x, y)
    text = one(results, ".tip.floating").text
    assert told(text, "Base", "loss 2.0", "epoch 1"), text


def test_the_legend_of_a_chart_hides_and_shows(results: Browser) -> None:
    shown = """const parts = [...document.querySelectorAll('#figure-points-points [data-entry]')];
        return parts.map((one) => getComputedStyle(one).display)"""
    before = results.execute_script(shown)
    button, *_ = every(results, "#figure-points-points .entry")
    button.click()
    hidden = results.execute_script(shown)
    assert button.get_attribute("aria-pressed") == "false" and "none" in hidden and set(hidden) != {"none"}
    one(results, "#figure-points-points .all").click()
    assert results.execute_script(shown) == before


def test_no_sideways_scrolling_on_a_phone(browser: Browser, address: str) -> None:
    visit(browser, address, 390, 844)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_charts_follow_the_theme(results: Browser) -> None:
    look = """const style = (selector) => getComputedStyle(document.querySelector(selector));
        return [style('body').backgroundColor, style('.band').fill, style('.chart text').fill]"""
    light = results.execute_script(look)
    prefer(results, "dark")
    until(results, "return document.documentElement.dataset.theme === 'dark'")
    dark = results.execute_script(look)
    assert all(before != after for before, after in zip(light, dark, strict=True))
    one(results, "#theme").click()
    assert results.execute_script(look) == light


def test_the_rest_of_cells_is_printed(browser: Browser, address: str) -> None:
    visit(browser, address, scheme="dark")
    browser.execute_script(
        """theme.listeners.push((wish) => {
          if (wish?.all) window.printed = {
            closed: document.querySelectorAll('details:not([open])').length,
            rest: document.querySelector('#table-toy-0 .rest').getBoundingClientRect().height > 20,
            colour: getComputedStyle(document.body).color,
          };
        })"""
    )
    assert browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})["data"]
    assert browser.execute_script("return window.printed") == {"closed": 0, "rest": True, "colour": "rgb(29, 33, 39)"}
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert errors(browser) == []


def test_tables_sort_both_ways_and_back(results: Browser) -> None:
    before = column(results, 1)
    header = every(results, "#table-toy-0 thead th")[1]
    button = header.find_element("css selector", "button")
    button.click()
    assert header.get_attribute("aria-sort") == "descending"
    assert column(results, 1) == sorted(before, key=lambda value: -(value or 0))
    button.send_keys("\n")
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(results, 1) == sorted(before, key=lambda value: value or 0)
    button.send_keys(" ")
    assert header.get_attribute("aria-sort") == "none"
    assert column(results, 1) == before


def test_missing_cells_stay_last(results: Browser) -> None:
    button = every(results, "#table-toy-0 thead button")[2]
    for _ in range(2):
        button.click()
        assert column(results, 2)[-1] is None


def test_columns_sort_by_what_is_chosen(results: Browser) -> None:
    every(results, "#table-toy-0 thead button")[1].click()
    one(results, "select[data-table='table-toy-0'] option[value='published']").click()
    first = one(results, "#table-toy-0 tbody tr:first-child th").text
    assert first == "Base+", "99 is the highest published value"


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_of_a_search(width: int, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "tune.html"
    path.write_text(tuning_page(search(), WHERE, "graphkin fit '<b>'"), encoding="utf-8")
    visit(browser, path.as_uri(), width)
    assert errors(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(every(browser, "svg.chart[role=img]")) == 4
    every(browser, "#table-trials thead button")[1].click()
    first = "return [...document.querySelectorAll('#table-trials tbody th')].map((cell) => cell.textContent.trim())"
    assert browser.execute_script(first) == ["3 best", "4", "1 no search", "2"]
    x, y = browser.execute_script(CENTRE, "#settings .defaults[data-tip]")
    point_at(browser, x, y)
    assert told(one(browser, ".tip.floating").text, "trial 1", "70.00 %", "tau 0.4")


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
