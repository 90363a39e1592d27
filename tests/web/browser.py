"""The system's chromium without a window, spoken to over a pair of pipes: no further package is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
)


def executable():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab. `events` is all that happened in it since it was opened."""

    def __init__(self, down, up):
        self.down, self.up, self.number, self.session, self.events = down, up, 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.down.write(json.dumps(message).encode() + b"\0")
        self.down.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self):
        found = bytearray()
        while (byte := self.up.read(1)) != b"\0":
            assert byte, "the browser has gone"
            found += byte
        answer = json.loads(found)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, address, *, width, height=800, dark=False, media=""):
        """Load a page and wait until it has loaded."""
        phone = width < 700
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.events.clear()
        self.ask("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def run(self, code):
        """The value of an expression."""
        answer = self.ask("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def of(self, method):
        return [event["params"] for event in self.events if event["method"] == method]

    def picture(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self):
        return base64.b64decode(self.ask("Page.printToPDF")["data"])


@contextmanager
def browser():
    """A browser of its own, in a folder of its own, that ends with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = ["bash", "-c", shell, executable(), *FLAGS, f"--user-data-dir={home}", "about:blank"]
        process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        with os.fdopen(ours_out, "wb") as down, os.fdopen(ours_in, "rb") as up:
            try:
                yield Page(down, up)
            finally:
                process.terminate()
                process.wait(20)
