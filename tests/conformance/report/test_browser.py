"""The pages in a real browser, cut off from the network: on a phone and a desktop, in the light and in the dark."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from northbridge_conformance.report.html import render_page, write_page
from northbridge_conformance.report.report import Report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="neither chromium nor chromedriver may be missing, and one is not on PATH",
)

SCREENS = {"a small phone": (320, 640), "a desktop": (1280, 900)}
PAGES = ("good", "mixed", "nothing", "hostile", "compared")

Open = Callable[..., webdriver.Chrome]

# The contrast of every element with text of its own that is shown, as WCAG computes it.
CONTRASTS = """
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = ([red, green, blue]) => {
  const [r, g, b] = [red, green, blue].map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const colour = channels(getComputedStyle(node).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
    if (colour[3] !== 0) throw new Error("a ground that lets another through");
  }
  return [255, 255, 255];
};
return [...document.body.querySelectorAll("*")]
  .filter((node) => node.checkVisibility() && node.tagName !== "SCRIPT"
    && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
  .map((node) => {
    const colours = [channels(getComputedStyle(node).color), ground(node)];
    const [dark, light] = colours.map(luminance).sort((a, b) => a - b);
    return [(light + 0.05) / (dark + 0.05), `${node.tagName} ${node.className}`, node.textContent.slice(0, 40)];
  });
"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    # Root, as containers run it, has no sandbox to offer, and their /dev/shm is small.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield driver
    driver.quit()


@pytest.fixture
def visit(
    chrome: webdriver.Chrome, tmp_path: Path, good: Report, mixed: Report, nothing: Report, hostile: Report
) -> Open:
    """Open a page, by its name, on a screen."""
    reports: dict[str, tuple[Report, ...]] = {"good": (good,), "mixed": (mixed,), "nothing": (nothing,)}
    reports |= {"hostile": (hostile,), "compared": (good, mixed, hostile)}

    def visit(name: str, screen: str = "a desktop", scheme: str = "light") -> webdriver.Chrome:
        page = write_page(tmp_path / f"{name}.html", render_page(*reports[name]))
        width, height = SCREENS[screen]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for log in ("browser", "performance"):
            read_log(chrome, log)  # what was said of an earlier page
        chrome.get(page.as_uri())
        return chrome

    return visit


def read_log(driver: webdriver.Chrome, name: str) -> list[dict[str, Any]]:
    """Return what was written into a log since it was last read."""
    entries: list[dict[str, Any]] = driver.get_log(name)  # type: ignore[no-untyped-call]  # selenium gives it no types
    return entries


def shown(driver: webdriver.Chrome) -> list[WebElement]:
    return [each for each in driver.find_elements(By.CSS_SELECTOR, "[data-verdict]") if each.is_displayed()]


def matching(driver: webdriver.Chrome) -> int:
    """Return how many tests the page says that it shows."""
    return int(driver.find_element(By.ID, "matches").text.split()[0])


@pytest.mark.parametrize(("screen", "scheme"), [("a small phone", "dark"), ("a desktop", "light")])
@pytest.mark.parametrize("name", PAGES)
def test_every_text_is_on_the_screen_and_can_be_read(visit: Open, name: str, screen: str, scheme: str) -> None:
    driver = visit(name, screen, scheme)
    everything = "document.querySelectorAll('details').forEach((each) => { each.open = true; });"

    for prepare in ("", everything):
        driver.execute_script(prepare)
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= SCREENS[screen][0]
    found: list[tuple[float, str, str]] = driver.execute_script(CONTRASTS)
    assert len(found) > 60
    assert any("badge" in where for _, where, _ in found)
    assert [each for each in found if each[0] < 4.5] == []


@pytest.mark.parametrize("name", PAGES)
def test_page_asks_no_network_and_logs_nothing(visit: Open, name: str) -> None:
    driver = visit(name)
    driver.find_element(By.ID, "words").send_keys("views")

    messages: list[dict[str, Any]] = [
        json.loads(each["message"])["message"] for each in read_log(driver, "performance")
    ]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert [url.partition(":")[0] for url in asked if not url.startswith("data:")] == ["file"]
    assert read_log(driver, "browser") == []


def test_words_narrow_the_list_without_a_mouse(visit: Open) -> None:
    driver = visit("mixed")
    everything = matching(driver)
    for _ in range(40):
        if driver.switch_to.active_element.get_attribute("id") == "words":
            break
        ActionChains(driver).send_keys(Keys.TAB).perform()

    driver.switch_to.active_element.send_keys("FP16 gradients")

    assert everything == len(driver.find_elements(By.CSS_SELECTOR, "[data-verdict]"))
    assert driver.find_element(By.ID, "matches").text == f"1 of {everything} tests match"
    assert [each.find_element(By.TAG_NAME, "h4").text for each in shown(driver)] == ["FAIL fp16 scales its gradients"]

    driver.switch_to.active_element.send_keys(" and no such test")
    assert matching(driver) == 0
    assert "No test matches" in driver.find_element(By.ID, "nothing").text

    driver.switch_to.active_element.send_keys(Keys.CONTROL + "a", Keys.DELETE)
    assert matching(driver) == everything


def test_a_verdict_is_chosen_with_the_space_bar(visit: Open) -> None:
    driver = visit("mixed")

    driver.find_element(By.CSS_SELECTOR, "input[value='UNDERCLAIM']").send_keys(Keys.SPACE)
    assert [each.get_attribute("data-verdict") for each in shown(driver)] == ["UNDERCLAIM"]

    driver.find_element(By.CSS_SELECTOR, "input[value='TIMEOUT']").send_keys(Keys.SPACE)
    assert {each.get_attribute("data-verdict") for each in shown(driver)} == {"UNDERCLAIM", "TIMEOUT"}
    assert matching(driver) == 2


@pytest.mark.parametrize(("name", "pages"), [("good", 2), ("mixed", 3), ("compared", 3)])
def test_print_is_compact(visit: Open, name: str, pages: int) -> None:
    printed = base64.b64decode(visit(name).execute_cdp_cmd("Page.printToPDF", {})["data"])

    assert len(re.findall(rb"/Type /Page\b", printed)) <= pages
