"""The dashboard in a real browser: it loads clean, keeps itself new, and can be read and used by everybody."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import quote

import pytest

from tests.service.dashboard import statuses
from tests.service.dashboard.serving import ADMIN_KEY, READ_KEY, Server, Shop

LEAST_CONTRAST = 4.5
LEAST_TARGET_PIXELS = 24
NAMES = list(statuses.all_of_them())
DESK = {"width": 1100, "height": 800}

# Every text that can be seen, with the contrast of its colour to what lies behind it.
CONTRAST = """() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const seen = new Map();
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    if (!seen.has(element)) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      seen.set(element, colour.length === 3 || colour[3] > 0 ? colour : behind(element.parentElement));
    }
    return seen.get(element);
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!walk.currentNode.data.trim() || element.closest("noscript, title, script") || box.width < 2) continue;
    const style = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walk.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def running():
    """A shop and its server, for all tests here."""
    shop = Shop({})
    with Server(shop.app()) as server:
        yield shop, server.address


@pytest.fixture
def shop(running):
    running[0].statuses = statuses.all_of_them()
    return running[0]


@pytest.fixture
def address(running, shop):
    return running[1]


class Watch:
    """Notes what a context's pages say in the console, and whom they ask."""

    def __init__(self, context, address):
        self.said, self.asked, self._address = [], [], address
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("console", lambda message: self.said.append(message.text))
        context.on("weberror", lambda error: self.said.append(str(error.error)))

    def check(self):
        """Nothing was said, and nobody else was asked."""
        assert self.said == []
        assert [url for url in self.asked if not url.startswith(f"{self._address}/")] == []


@pytest.fixture(scope="module")
def visitor(browser, running):
    """Somebody who is signed in with the admin's key, and whose clock can be moved."""
    running[0].statuses = statuses.all_of_them()
    context = browser.new_context(base_url=running[1], viewport=DESK)
    watch, page = Watch(context, running[1]), context.new_page()
    page.clock.install()
    sign_in(page, ADMIN_KEY)
    yield page, watch
    context.close()


@pytest.fixture
def page(visitor, shop):
    """Their page; in the end nothing was said in the console, and no request left the host."""
    page, watch = visitor
    yield page
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")
    watch.check()


@contextlib.contextmanager
def another(browser, address, **options):
    """A visitor who is not signed in."""
    context = browser.new_context(base_url=address, **{"viewport": DESK, **options})
    try:
        yield context
    finally:
        context.close()


def sign_in(page, key):
    page.goto("/dashboard/sign-in")
    page.fill("#key", key)
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard")


def show(page, name):
    page.goto(f"/dashboard{at(name) if name else ''}")
    page.eval_on_selector_all("details", "all => all.forEach((one) => (one.open = true))")


def at(name):
    return f"/experiments/{quote(name, safe='')}"


def pale(page):
    """What has too little contrast."""
    found = page.evaluate(CONTRAST)
    assert len(found) >= 5
    return [one for one in found if one[0] < LEAST_CONTRAST]


def check_page(page, name):
    """It has enough contrast in both themes, fits a phone, and has nothing too small to be touched."""
    show(page, name)
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        assert pale(page) == [], (theme, name)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, name
    title, live = (page.locator(one).bounding_box() for one in ("h1", ".live"))
    assert live["y"] + live["height"] <= title["y"] or title["y"] + title["height"] <= live["y"]
    small = page.eval_on_selector_all(
        "button, summary, input:not([hidden])",
        "all => all.map((one) => [one.textContent, one.getBoundingClientRect().height])",
    )
    assert [one for one in small if 0 < one[1] < LEAST_TARGET_PIXELS] == [], name


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["", "checkout", "winter prices"], ids=["list", "checkout", "paused"])
def test_a_page_loads_clean_can_be_read_in_both_themes_and_fits_a_phone(page, name):
    check_page(page, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:14])
def test_all_of_them_do(page, name):
    check_page(page, name)


@pytest.mark.thorough
def test_it_updates_while_one_watches(page, shop):
    page.goto(f"/dashboard{at('checkout')}")
    before = page.locator("path.best").get_attribute("d")
    page.click("text=The same in figures")
    page.focus("#in-words summary")
    assert page.locator("#news").text_content() == ""

    shop.statuses["checkout"] = statuses.collecting(looks=19, more=7)
    assert next_answer(page).status == 200
    page.wait_for_function("old => document.querySelector('path.best').getAttribute('d') !== old", arg=before)
    assert page.locator("circle.look[cx*='%']").count() == 19
    assert "within 0.0347 of the best rule" in page.locator("#answer").text_content()
    # Whoever cannot see it is told; what was open stays open, and the focus stays where it was.
    assert "within 0.0347 of the best rule" in page.locator("#news").text_content()
    assert page.locator("#looks").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.parentElement.id") == "in-words"

    # Where nothing is new, nothing is sent; and counts alone are not read out.
    assert next_answer(page).status == 304
    page.evaluate("document.getElementById('news').textContent = ''")
    shop.statuses["checkout"] = statuses.collecting(looks=19, more=99)
    assert next_answer(page).status == 200
    page.wait_for_function("() => document.getElementById('answer').textContent.includes('16,211')")
    assert page.locator("#news").text_content() == ""


def next_answer(page):
    """What the script is answered when its time has come."""
    with page.expect_response("**/dashboard/parts**") as answer:
        page.clock.run_for(4_500)
    return answer.value


def test_the_list_updates_as_well(page, shop):
    page.goto("/dashboard")
    shop.statuses["spring sale"] = statuses.created("spring sale")
    del shop.statuses["newsletter"]
    next_answer(page)
    page.wait_for_selector("text=spring sale")
    assert page.locator("text=newsletter").count() == 0


def test_nothing_is_asked_for_while_nobody_looks(page, visitor):
    page.goto(f"/dashboard{at('checkout')}")
    asked = visitor[1].asked
    hide = "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    asked.clear()
    page.clock.run_for(60_000)
    assert [url for url in asked if "/parts/" in url] == []
    with page.expect_response("**/parts/checkout"):
        page.evaluate(hide, False)
    asked.clear()
    page.click("text=Stop updating")
    page.clock.run_for(60_000)
    assert asked == []
    with page.expect_response("**/parts/checkout"):
        page.click("text=Go on updating")


def test_everything_works_without_a_mouse(page):
    page.goto(f"/dashboard{at('checkout')}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    look = (
        "() => { const one = document.activeElement, style = getComputedStyle(one);"
        "return one === document.body ? null : [one.textContent.slice(0, 40) || one.getAttribute('aria-label'),"
        "style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]; }"
    )
    seen = []
    while found := page.evaluate(look):
        words, outlined = found
        assert outlined, words
        seen.append(words)
        page.keyboard.press("Tab")
    for wanted in ("pacbandits", "Dark theme", "Sign out", "Stop updating", "All experiments", "The same in figures"):
        assert wanted in seen
    for wanted in ("The rule in words", "29 older events", "Copy", "Fixed at the start"):
        assert wanted in seen
    page.focus("#older summary")
    page.keyboard.press("Enter")
    assert page.locator("#older").get_attribute("open") is not None


def test_signing_in_and_out(browser, address):
    with another(browser, address) as context:
        watch, page = Watch(context, address), context.new_page()
        page.goto(f"/dashboard{at('checkout')}")
        assert page.locator("h1").text_content() == "Sign in"
        assert page.evaluate("document.activeElement.id") == "key"
        assert pale(page) == []
        page.keyboard.type(READ_KEY)
        page.keyboard.press("Enter")
        page.wait_for_url("**/experiments/checkout")
        assert page.locator("h1").text_content() == "checkout"
        assert page.evaluate("document.cookie") == ""  # scripts cannot see it
        page.click("text=Sign out")
        page.wait_for_url("**/sign-in")
        page.goto(f"/dashboard{at('checkout')}")
        assert "Sign in" in page.locator("h1").text_content()
        watch.check()
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=alert]")
        assert "This key opens no experiment." in page.locator("[role=alert]").text_content()
        assert page.locator("#key").input_value() == ""


@pytest.mark.slow
def test_who_loses_the_session_or_the_server_is_told(browser, address):
    with another(browser, address) as context:
        page = context.new_page()
        sign_in(page, READ_KEY)
        page.clock.install()
        page.goto(f"/dashboard{at('checkout')}")
        context.set_offline(True)
        page.clock.run_for(4_500)
        page.wait_for_selector("text=No answer from the server; trying again")
        context.set_offline(False)
        page.clock.run_for(20_000)
        page.wait_for_function("() => document.getElementById('pulse').textContent === 'Live'")
        context.clear_cookies()
        page.clock.run_for(4_500)
        page.wait_for_selector("text=Signed out; reload to sign in again")


@pytest.mark.slow
def test_the_chosen_theme_is_remembered(browser, address):
    with another(browser, address, color_scheme="light") as context:
        page = context.new_page()
        sign_in(page, READ_KEY)
        white = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.focus("#theme")
        page.keyboard.press("Enter")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != white
        page.goto(f"/dashboard{at('checkout')}")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
        page.click("text=Light theme")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == white


@pytest.mark.slow
def test_without_scripts_a_page_says_the_same(browser, address):
    with another(browser, address, java_script_enabled=False, color_scheme="dark") as context:
        page = context.new_page()
        sign_in(page, READ_KEY)
        page.goto(f"/dashboard{at('checkout')}")
        assert "within 0.0365 of the best rule" in page.locator(".headline").text_content()
        assert page.locator("noscript").text_content().startswith("Without scripts")
        assert not page.locator("#theme").is_visible()
        assert not page.locator("#hold").is_visible()
        assert page.locator("path.best").count() == 1


@pytest.mark.slow
def test_the_seal_can_be_copied(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/dashboard{at('checkout')}")
    page.click("#copy")
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == statuses.fingerprint("18")


def test_hostile_names_run_nothing(page):
    """An alert would stop the page, a picture would be asked for and not found: the console would say so."""
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(f"/dashboard{at(statuses.HOSTILE)}")
    assert page.locator("h1").text_content() == statuses.HOSTILE
    assert page.locator("img").count() == 0
    assert re.search(r"pacbandits$", page.title())
