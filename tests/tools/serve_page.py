#!/usr/bin/env python3
"""The chat page of a cag-serve in a real browser, one TAP test for each thing.

    serve_page.py BASE CACHE [DIRECTORY]

Needs Debian's chromium and chromium-driver; speaks WebDriver, the protocol of
the W3C, by itself.  The server serves CACHE, of a real model and a text about Maya, among
others.  Pictures of the page go to DIRECTORY.
"""
import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

base, cache = sys.argv[1:3]
pictures = sys.argv[3] if len(sys.argv) > 3 else None
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
tests = []


def test(fn):
    tests.append(fn)
    return fn


class Browser:
    def __init__(self, home):
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env=dict(os.environ, HOME=home))
        for line in self.driver.stdout:
            hit = re.search(r"started successfully on port (\d+)", line)
            if hit:
                self.port = int(hit.group(1))
                break
        else:
            raise SystemExit("chromedriver does not start")
        self.path = ""
        args = ["--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-proxy-server",
                "--disable-background-networking", "--window-size=1100,800",
                "--user-data-dir=" + os.path.join(home, "profile")]
        session = self.call("POST", "/session", {"capabilities": {
            "alwaysMatch": {"goog:chromeOptions": {"args": args},
                            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.path = "/session/" + session["sessionId"]

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.request(method, self.path + path,
                  json.dumps(body if body is not None else {})
                  if method == "POST" else None,
                  {"Content-Type": "application/json"})
        value = json.loads(c.getresponse().read())["value"]
        c.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def end(self):
        try:
            if self.path:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def go(self):
        self.call("POST", "/url", {"url": base + "/"})
        self.wait("return document.querySelectorAll('#cache option').length")

    def run(self, script, *args):
        return self.call("POST", "/execute/sync",
                         {"script": script, "args": list(args)})

    def wait(self, script, *args):
        for _ in range(600):
            value = self.run(script, *args)
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError("waited in vain: " + script)

    def find(self, css):
        return self.call("POST", "/element", {
            "using": "css selector", "value": css})[ELEMENT]

    def type(self, text, css="#text"):
        self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, key):
        self.call("POST", "/actions", {"actions": [{
            "type": "key", "id": "k", "actions": [
                {"type": "keyDown", "value": key},
                {"type": "keyUp", "value": key}]}]})

    def click(self, css):
        self.call("POST", f"/element/{self.find(css)}/click")

    def text(self, css):
        return self.run("return document.querySelector(arguments[0])"
                        ".textContent", css)

    def idle(self):
        self.wait("return document.getElementById('stop').hidden && "
                  "!document.getElementById('talk').hasAttribute('aria-busy')")

    def colours(self, scheme):
        self.call("POST", "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia", "params": {"features": [
                {"name": "prefers-color-scheme", "value": scheme}]}})

    def picture(self, name):
        if pictures:
            with open(os.path.join(pictures, name + ".png"), "wb") as f:
                f.write(base64.b64decode(self.call("GET", "/screenshot")))


def answer_of(question, n):
    c = http.client.HTTPConnection(base.split("//")[1], timeout=120)
    c.request("POST", "/v1/chat/completions", json.dumps({
        "model": cache, "max_tokens": n,
        "messages": [{"role": "user", "content": question}]}),
        {"Content-Type": "application/json"})
    return json.loads(c.getresponse().read())["choices"][0]


LONG = "Write a very long story about Maya, with every detail of her life."


@test
def caches_are_listed_and_one_is_picked():
    b.go()
    names = b.run("return [...document.querySelectorAll('#cache option')]"
                  ".map(o => o.value)")
    assert cache in names and len(names) > 1, names
    assert b.run("return document.activeElement.id") == "text"
    b.run("const c = document.getElementById('cache'); c.value = arguments[0];"
          "c.dispatchEvent(new Event('change'))", cache)
    assert b.run("return document.activeElement.id") == "text"


@test
def an_answer_is_streamed_and_stopped():
    b.type(LONG + ENTER)
    b.wait("const a = document.querySelector('.answer');"
           "return a && a.textContent.length > 5")
    assert b.run("return document.getElementById('send').hidden")
    b.click("#stop")
    b.idle()
    text = b.text(".answer")
    assert "stopped" in b.text(".facts")
    whole = answer_of(LONG, 60)["message"]["content"]
    assert text[:40] == whole[:len(text)][:40], (text, whole)
    assert b.run("return document.activeElement.id") == "text"
    # by the keyboard
    b.click("#fresh")
    assert b.run("return document.querySelectorAll('.turn').length") == 0
    b.type(LONG + ENTER)
    b.wait("const a = document.querySelector('.answer');"
           "return a && a.textContent.length > 5")
    b.press(ESCAPE)
    b.idle()
    assert "stopped" in b.text(".facts")


@test
def evidence_stands_beside_the_answer():
    b.click("#fresh")
    b.type("Who leads the project?" + ENTER)
    b.idle()
    assert b.text("aside h2") == "Stands in"
    assert b.text("aside blockquote")
    assert re.search(r"support: (strong|weak|none)", b.text(".facts"))
    assert re.search(r"\d+ tokens, \d+ cached", b.text(".facts"))
    left = b.run("return document.querySelector('.answer')"
                 ".getBoundingClientRect().right")
    assert left <= b.run("return document.querySelector('aside')"
                         ".getBoundingClientRect().left")
    b.click(".facts button")
    b.wait("return document.querySelector('.facts button').textContent == "
           "'Copied'")
    b.picture("light")


@test
def a_second_turn_goes_on():
    b.type("And what is its name?" + ENTER)
    b.idle()
    assert b.run("return document.querySelectorAll('.turn').length") == 2


@test
def shift_enter_begins_a_line():
    b.type("one")
    b.call("POST", "/actions", {"actions": [{"type": "key", "id": "k",
           "actions": [{"type": "keyDown", "value": "\ue008"},
                       {"type": "keyDown", "value": ENTER},
                       {"type": "keyUp", "value": ENTER},
                       {"type": "keyUp", "value": "\ue008"}]}]})
    b.type("two")
    text = b.run("return document.getElementById('text').value")
    assert text == "one\ntwo", repr(text)
    b.run("document.getElementById('text').value = ''")


@test
def an_error_can_be_read_and_asked_again():
    b.click("#fresh")
    b.run("document.getElementById('text').value = 'word '.repeat(20000)")
    b.type(ENTER)
    b.wait("return document.querySelector('.facts .error')")
    assert "context" in b.text(".facts .error"), b.text(".facts .error")
    assert b.run("return document.getElementById('text').value.length") > 1000
    b.run("document.getElementById('text').value = ''")


CONTRAST = """
const luminance = c => {
  const v = c.map(x => { x /= 255;
    return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; });
  return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
const rgb = s => s.match(/[\\d.]+/g).map(Number);
const bad = [];
for (const e of document.querySelectorAll(
    'h1, label, select, button, textarea, #state, .question, .answer, ' +
    '.facts span, .facts button, aside h2, aside div, blockquote, .error')) {
  if (!e.getClientRects().length || e.disabled) continue;
  let back = [0, 0, 0, 0];
  for (let p = e; p && back[3] === 0; p = p.parentElement) {
    const c = rgb(getComputedStyle(p).backgroundColor);
    back = c.length === 3 ? [...c, 1] : c; }
  const a = luminance(rgb(getComputedStyle(e).color)), z = luminance(back);
  const ratio = (Math.max(a, z) + .05) / (Math.min(a, z) + .05);
  if (ratio < 4.5) bad.push(e.tagName + '.' + e.className + ' ' + ratio);
}
return bad;
"""


@test
def contrast_is_enough_in_light_and_dark():
    b.type("Who leads the project?" + ENTER)
    b.idle()
    for scheme in ("dark", "light"):
        b.colours(scheme)
        assert b.run("return matchMedia('(prefers-color-scheme: dark)')"
                     ".matches") == (scheme == "dark")
        bad = b.run(CONTRAST)
        assert not bad, (scheme, bad)
        b.picture(scheme)


@test
def each_control_has_a_name():
    for e in b.call("POST", "/elements", {
            "using": "css selector",
            "value": "select, button, input, textarea, main, aside"}):
        shown = b.call("GET", f"/element/{e[ELEMENT]}/displayed")
        if shown:
            assert b.call("GET", f"/element/{e[ELEMENT]}/computedlabel"), \
                b.call("GET", f"/element/{e[ELEMENT]}/property/outerHTML")
    # those that are hidden until they are needed
    assert b.run("return document.querySelector('label[for=key]') !== null")


@test
def the_keyboard_reaches_everything_and_shows_where_it_is():
    b.run("document.activeElement.blur(); window.focus()")
    seen = []
    for _ in range(12):
        b.press(TAB)
        seen.append(b.run(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.id || e.textContent, s.outlineStyle, s.outlineWidth]"))
    names = {x[0] for x in seen}
    assert {"cache", "fresh", "talk", "text", "send"} <= names, names
    for name, style, width in seen:
        if name in ("cache", "fresh", "text", "send", "Copy"):
            assert style != "none" and width != "0px", (name, style, width)


@test
def a_narrow_screen_needs_no_scrolling_sideways():
    b.call("POST", "/goog/cdp/execute", {
        "cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": 360, "height": 640, "deviceScaleFactor": 1,
            "mobile": True}})
    assert b.run("return innerWidth") == 360
    assert b.run("return document.documentElement.scrollWidth") <= 360
    below = b.run("const a = document.querySelector('aside');"
                  "return !a.textContent || a.getBoundingClientRect().top >="
                  "document.querySelector('.answer').getBoundingClientRect()"
                  ".bottom")
    assert below
    b.picture("narrow")


@test
def nothing_went_wrong_unseen():
    log = [x["message"] for x in b.call("POST", "/se/log", {"type": "browser"})
           if x["level"] == "SEVERE" and " 400 " not in x["message"]]
    assert not log, log


if not (shutil.which("chromedriver") and shutil.which("chromium")):
    print("1..0 # skip no chromium and chromium-driver")
    sys.exit(0)
with tempfile.TemporaryDirectory(prefix="cag-page-",
                                 ignore_cleanup_errors=True) as place:
    b = Browser(place)
    try:
        print(f"1..{len(tests)}")
        failed = 0
        for i, fn in enumerate(tests):
            try:
                fn()
                print(f"ok {i + 1} - {fn.__name__}", flush=True)
            except Exception as e:  # a test reports, and the others run
                failed += 1
                print(f"not ok {i + 1} - {fn.__name__}")
                at = e.__traceback__.tb_next or e.__traceback__
                print(f"# line {at.tb_lineno}: {type(e).__name__}: {e}",
                      flush=True)
    finally:
        b.end()
sys.exit(1 if failed else 0)
