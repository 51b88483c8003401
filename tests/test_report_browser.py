"""The page of a run in a real browser."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphkin import Graph
from graphkin.graphs.synthetic import community_graph
from graphkin.report.page import fit_page
from tests.browsing import Browser, errors, every, one, point_at, prefer, requested, until, visit
from tests.reports import run_folder
from tests.wording import told

pytestmark = pytest.mark.browser
PLACE = """map.figure.scrollIntoView({ block: 'start' });
    const box = map.frame.querySelector('canvas').getBoundingClientRect(), [x, y] = map.pixels(arguments[0]);
    return [box.left + x, box.top + y]"""
PIXEL = """map.draw();
    const canvas = map.frame.querySelector('canvas'), [x, y] = map.pixels(arguments[0]);
    return [...canvas.getContext('2d').getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    graph = communities()
    path = folder / "report.html"
    path.write_text(fit_page(run_folder(folder / "run", graph), graph, command="graphkin report run"), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    return visit(browser, page.as_uri())


def communities() -> Graph:
    """Two labelled groups whose nodes have names that are not to be taken for HTML."""
    draw = np.random.default_rng(0)
    labels = np.arange(40) // 20
    edges = np.argwhere(np.triu(draw.random((40, 40)) < np.where(labels[:, None] == labels, 0.3, 0.03), 1)).T
    x = draw.random((40, 16)) + labels[:, None]
    ids = ["<b>first</b>", *(f"node {number}" for number in range(1, 40))]
    return replace(Graph.from_arrays(x, edges, labels, ids=ids), class_names=("left & up", "right"), name="two groups")


def find(browser: Browser, text: str) -> Any:
    field = one(browser, ".find input")
    field.clear()
    field.send_keys(text)
    return one(browser, ".find output")


def test_opens_without_errors_and_fetches_nothing(opened: Browser, page: Path) -> None:
    opened.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    opened.execute_script("scrollTo(0, document.body.scrollHeight)")
    assert errors(opened) == []
    assert requested(opened) == {page.as_uri()}
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.stat().st_size < 2_000_000


def test_scripts_that_are_not_of_the_page_do_not_run(opened: Browser) -> None:
    opened.execute_script(
        """const made = document.createElement('script');
        made.textContent = 'window.injected = true';
        document.body.append(made)"""
    )
    assert opened.execute_script("return window.injected") is None


def test_the_answer_comes_first_and_the_machine_last(opened: Browser) -> None:
    answer = one(opened, "#answer .sentence")
    assert told(answer.text, "grace+", "1.00 points", "raw features", "Two splits")
    order = "const place = (one) => document.querySelector(one).getBoundingClientRect().top; return arguments[0].map(place)"
    places = opened.execute_script(
        order, ["h1", "#answer", "#map", "#scores", "#weights", "#loss", "#settings", "footer .facts"]
    )
    assert places == sorted(places)
    assert "Machine" not in one(opened, "header").text and "Machine" in one(opened, "footer").text


def test_the_map_fills_its_frame(opened: Browser) -> None:
    places = opened.execute_script("return [...Array(map.count).keys()].map(map.pixels)")
    sides = opened.execute_script("return [map.frame.clientWidth, map.frame.clientHeight]")
    for axis, length in enumerate(sides):
        along = [place[axis] for place in places]
        assert 0 < min(along) < 30 and length - 30 < max(along) < length


def test_dots_are_smaller_in_larger_graphs(opened: Browser, tmp_path: Path) -> None:
    size = opened.execute_script("return map.dot()")
    graph = community_graph(1500, classes=3, words=16, words_of_node=4)
    path = tmp_path / "large.html"
    path.write_text(fit_page(run_folder(tmp_path / "run", graph, "grace", epochs=1), graph, layout="pca"), encoding="utf-8")
    visit(opened, path.as_uri())
    assert 2 < 2 * opened.execute_script("return map.dot()") < size < 12


def test_pointing_at_a_node_shows_who_is_similar_by_rank(opened: Browser) -> None:
    point_at(opened, *opened.execute_script(PLACE, 0))
    tip = one(opened, ".frame .tip")
    assert tip.find_element("css selector", "b").text == "<b>first</b>"
    assert "left & up" in tip.text
    similar = opened.execute_script("return map.nodes.nearest[0].map((node) => map.nodes.names[node])")
    lines = every(opened, ".frame .tip ol li")
    assert len(lines) == 5 and all(line.text.startswith(name) for line, name in zip(lines, similar, strict=True))
    assert opened.execute_script("return getComputedStyle(document.querySelector('.tip ol')).listStyleType") == "decimal"
    cosines = [line.find_element("css selector", ":scope > small").text for line in lines]
    assert len(set(cosines)) == 5 and sorted(cosines, reverse=True) == cosines, "enough digits to tell them apart"
    assert opened.execute_script("return map.marked.length") == 6
    point_at(opened, 5, 5)
    assert not tip.is_displayed()


def test_a_click_keeps_a_node_and_leads_to_the_next(opened: Browser) -> None:
    point_at(opened, *opened.execute_script(PLACE, 0), press=True)
    point_at(opened, 5, 5)
    tip = one(opened, ".frame .tip")
    assert tip.is_displayed()
    first = one(opened, ".frame .tip ol button")
    name = first.text
    first.click()
    assert tip.find_element("css selector", "b").text == name
    one(opened, ".frame canvas").send_keys("\ue00c")
    assert not tip.is_displayed()


def test_nodes_are_found_by_parts_of_their_ids(opened: Browser) -> None:
    output = find(opened, "ODE 3")
    assert output.text == "11 nodes found"
    assert opened.execute_script("return [...map.matches].map((node) => map.nodes.names[node])") == [
        "node 3",
        *(f"node {number}" for number in range(30, 40)),
    ]
    assert [item.text for item in every(opened, ".matches li")][:2] == ["node 3", "node 30"]
    others = opened.execute_script(PIXEL, 5)
    field = one(opened, ".find input")
    field.send_keys("\n")
    assert output.text == "1 of 11: node 3"
    assert one(opened, ".frame .tip b").text == "node 3"
    field.send_keys("\n")
    assert output.text == "2 of 11: node 30"
    every(opened, ".matches button")[3].click()
    assert output.text == "4 of 11: node 32" and one(opened, ".frame .tip b").text == "node 32"
    assert find(opened, "nobody").text == "no such node on the map"
    assert not one(opened, ".frame .tip").is_displayed() and every(opened, ".matches li") == []
    assert find(opened, " ").text == ""
    assert opened.execute_script(PIXEL, 5) != others, "nodes that were not found were faint"


def test_the_legend_filters(opened: Browser) -> None:
    """A node of the first group is hidden and shown."""
    from selenium.webdriver.common.action_chains import ActionChains

    page = opened.execute_script("return [...document.querySelectorAll('.map .entry')].map((one) => one.textContent)")
    assert [" ".join(text.split()) for text in page] == ["left & up 20", "right 20"]
    left, right = every(opened, ".map .legend .entry")
    before = opened.execute_script(PIXEL, 5)
    left.click()
    assert left.get_attribute("aria-pressed") == "false"
    assert opened.execute_script("return [map.shows(5), map.shows(25)]") == [False, True]
    assert opened.execute_script(PIXEL, 5) != before
    one(opened, ".map .legend .all").click()
    assert opened.execute_script("return [map.shows(5), map.shows(25)]") == [True, True]
    assert opened.execute_script(PIXEL, 5) == before
    ActionChains(opened).double_click(right).perform()
    assert opened.execute_script("return [map.shows(5), map.shows(25)]") == [False, True]
    ActionChains(opened).double_click(right).perform()
    assert opened.execute_script("return [map.shows(5), map.shows(25)]") == [True, True]
    opened.execute_script("document.querySelector('.map .only').click()")
    assert opened.execute_script("return [map.shows(5), map.shows(25)]") == [True, False]


def test_wheel_drag_keys_and_buttons_move_the_map(opened: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    canvas, place = one(opened, ".frame canvas"), "return map.pixels(0)"
    start = opened.execute_script(place)
    opened.execute_script("map.figure.scrollIntoView()")
    scrolled = opened.execute_script("return scrollY")
    ActionChains(opened).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -200).perform()
    until(opened, "return map.view.zoom > 1.2")
    assert opened.execute_script("return scrollY") == scrolled
    zoomed = opened.execute_script(place)
    ActionChains(opened).drag_and_drop_by_offset(canvas, 30, 20).perform()
    x, y = opened.execute_script(place)
    assert (x - zoomed[0], y - zoomed[1]) == pytest.approx((30, 20), abs=1)
    every(opened, "[data-zoom=reset]")[0].click()
    assert opened.execute_script(place) == start
    canvas.send_keys("+")
    assert opened.execute_script("return map.view.zoom") == 1.5
    canvas.send_keys("\ue012")
    assert opened.execute_script("return map.view.x") == 60
    canvas.send_keys("0")
    every(opened, "[data-zoom=in]")[0].click()
    assert opened.execute_script("return map.view.zoom") == 1.6
    every(opened, "[data-zoom=out]")[0].click()
    assert opened.execute_script(place) == pytest.approx(start)


def test_the_theme_recolours_the_map(opened: Browser) -> None:
    look = "return getComputedStyle(document.body).backgroundColor"
    light = opened.execute_script(look), opened.execute_script(PIXEL, 5)
    prefer(opened, "dark")
    until(opened, "return document.documentElement.dataset.theme === 'dark'")
    dark = opened.execute_script(look), opened.execute_script(PIXEL, 5)
    assert light[0] != dark[0] and light[1] != dark[1]
    one(opened, "#theme").click()
    assert (opened.execute_script(look), opened.execute_script(PIXEL, 5)) == light


def test_on_a_phone(browser: Browser, page: Path) -> None:
    """Nothing is wider than the screen, and a tap on a node shows who it is."""
    visit(browser, page.as_uri(), 390, 844)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    point_at(browser, *browser.execute_script(PLACE, 3), press=True)
    left, right = browser.execute_script(
        "const box = document.querySelector('.frame .tip').getBoundingClientRect(); return [box.left, box.right]"
    )
    assert 0 <= left < right <= 390


def test_prints_in_light_colours_with_everything_open(browser: Browser, page: Path) -> None:
    visit(browser, page.as_uri(), scheme="dark")
    browser.execute_script(
        """theme.listeners.push((wish) => {
          if (wish?.all) window.printed = {
            closed: document.querySelectorAll('details:not([open])').length,
            colour: getComputedStyle(document.body).color,
            paper: [...document.querySelector('.frame canvas').getContext('2d').getImageData(1, 1, 1, 1).data],
          };
        })"""
    )
    found = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert base64.b64decode(found["data"]).startswith(b"%PDF")
    printed = browser.execute_script("return window.printed")
    assert (printed["closed"], printed["colour"]) == (0, "rgb(29, 33, 39)") and min(printed["paper"]) > 250
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert errors(browser) == []
