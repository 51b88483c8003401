"""Debian's Chromium, without a screen and without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Browser = Any


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    from selenium import webdriver

    assert BROWSER is not None and DRIVER is not None, "deselect these tests (-m 'not browser') where there is no Chromium"
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


def visit(browser: Browser, address: str, width: int = 1200, height: int = 900, scheme: str = "light") -> Browser:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    prefer(browser, scheme)
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(address)
    return browser


def prefer(browser: Browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def until(browser: Browser, condition: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(condition))


def one(browser: Browser, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def every(browser: Browser, selector: str) -> list[Any]:
    return list(browser.find_elements("css selector", selector))


def point_at(browser: Browser, x: float, y: float, *, press: bool = False) -> None:
    """Move the pointer to a place in the window, from elsewhere; then perhaps click."""
    from selenium.webdriver.common.action_chains import ActionChains

    actions: Any = ActionChains(browser)
    pointer = actions.w3c_actions.pointer_action
    pointer.move_to_location(max(int(x) - 40, 0), max(int(y) - 40, 0))
    pointer.move_to_location(round(x), round(y))
    if press:
        pointer.click()
    actions.perform()


def errors(browser: Browser) -> list[Any]:
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def requested(browser: Browser) -> set[str]:
    """Addresses that were asked for, but for those that need no network."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return {address for address in addresses if not address.startswith(("data:", "blob:", "chrome:"))}
