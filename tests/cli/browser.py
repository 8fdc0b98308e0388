"""Drives a real Chromium over a pipe (its DevTools protocol), with nothing but Python's library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


class Browser:
    """One tab. Records errors of the console (`errors`) and every requested address (`requests`)."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="reigen-browser-", ignore_cleanup_errors=True)
        commands_in, self.commands = os.pipe()
        self.answers, answers_out = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
                   "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                   "--disable-sync", "--disable-extensions", "--force-color-profile=srgb",
                   f"--user-data-dir={self.profile.name}"]
        # The protocol wants file descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands_in} 4>&{answers_out}', "browser", PROGRAM, *options],
            pass_fds=(commands_in, answers_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, start_new_session=True)
        os.close(commands_in)
        os.close(answers_out)
        self.number = 0
        self.buffer = b""
        self.results = {}
        self.session = None
        self.forget()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")
        self.size(1280, 900)

    def forget(self):
        self.errors, self.requests, self.loaded = [], [], False

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def _event(self, message):
        method, params = message["method"], message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(json.dumps(params["entry"]))
        elif method == "Page.loadEventFired":
            self.loaded = True

    def _read(self, until):
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.answers], [], [], left)[0]:
            raise TimeoutError("the browser does not answer")
        got = os.read(self.answers, 1 << 20)
        if not got:
            raise OSError("the browser has ended")
        *whole, self.buffer = (self.buffer + got).split(b"\0")
        for message in map(json.loads, whole):
            if "id" in message:
                self.results[message["id"]] = message
            else:
                self._event(message)

    def call(self, method, seconds=30, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while self.number not in self.results:
            self._read(until)
        answer = self.results.pop(self.number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url):
        self.forget()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + 30
        while not self.loaded:
            self._read(until)

    def js(self, expression):
        """The value of a JavaScript expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, seconds=60):
        """Waits until the expression is true and returns its value."""
        until = time.monotonic() + seconds
        while not (value := self.js(expression)):
            if time.monotonic() > until:
                raise AssertionError(f"never became true: {expression}; the page says: {self.text('body')[:2000]}")
            time.sleep(0.05)
        return value

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector):
        """A real click in the middle of an element."""
        x, y = self.js("""(() => {const e = document.querySelector(%s); e.scrollIntoView({block: 'center',
            behavior: 'instant'}); const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2]})()""" % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **text)

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def accessibility(self):
        """(role, name) of everything a screen reader announces."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
