"""Chromium, controlled through the DevTools protocol with only Python's standard library.

A test starts one browser, opens pages from file:// in it, runs expressions in them, and sends real
input events. `errors` has all errors that a page logs, all exceptions, and all network requests.
"""

import base64
import itertools
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox: tests run as root in containers. The other flags keep the browser off the network.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-port=0")
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "ArrowLeft": ("ArrowLeft", 37, ""),
        "ArrowUp": ("ArrowUp", 38, ""), "ArrowRight": ("ArrowRight", 39, ""), "ArrowDown": ("ArrowDown", 40, "")}


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class WebSocket:
    """A minimal RFC 6455 client for a local browser: text messages over a plain socket."""

    def __init__(self, url: str):
        address = urlparse(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.receive()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(f"the browser refused the connection: {head!r}")

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the browser closed the connection")
        return data

    def take(self, size: int) -> bytes:
        parts = [self.buffer]
        have = len(self.buffer)
        while have < size:
            parts.append(self.receive())
            have += len(parts[-1])
        data = b"".join(parts)
        self.buffer = data[size:]
        return data[:size]

    def send(self, text: str) -> None:
        data = text.encode()
        size = len(data)
        head = (struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else
                struct.pack("!BBH", 0x81, 0x80 | 126, size) if size < 1 << 16 else
                struct.pack("!BBQ", 0x81, 0x80 | 127, size))
        self.socket.sendall(head + b"\0\0\0\0" + data)  # a mask of zeros is valid

    def message(self) -> str:
        whole = b""
        while True:
            first, second = self.take(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack("!H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.take(8))[0]
            data = self.take(size)
            if first & 0x0F in (0, 1):
                whole += data
                if first & 0x80:
                    return whole.decode()
            elif first & 0x0F == 8:
                raise ConnectionError("the browser closed the connection")


class Chromium:
    """One browser. Use as a context manager."""

    def __init__(self, program: str, width: int = 1400, height: int = 1000):
        self.profile = tempfile.mkdtemp(prefix="millrace_chromium_")
        self.words = Path(self.profile) / "stderr"
        with self.words.open("wb") as words:
            self.process = subprocess.Popen([program, *FLAGS, f"--window-size={width},{height}",
                                             f"--user-data-dir={self.profile}", "about:blank"],
                                            stdout=subprocess.DEVNULL, stderr=words)
        self.port = self.wait_for_port()

    def wait_for_port(self) -> int:
        file = Path(self.profile) / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if file.is_file() and "\n" in (text := file.read_text()):
                return int(text.split("\n")[0])
            if self.process.poll() is not None:
                raise RuntimeError(self.obituary())
            time.sleep(0.05)
        raise TimeoutError("the browser did not listen within 60 s")

    def obituary(self) -> str:
        """Why the browser ended: a negative status is a signal."""
        last = self.words.read_text(errors="replace")[-2000:]
        return f"the browser ended with status {self.process.poll()}; its last words: {last}"

    def open(self, path: Path) -> "Page":
        if self.process.poll() is not None:
            raise RuntimeError(self.obituary())
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            target = json.load(answer)
        page = Page(target["webSocketDebuggerUrl"])
        # Pages then scroll at once and not smoothly, so that tests do not have to wait.
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        page.navigate(path)
        return page

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Page:
    def __init__(self, url: str):
        self.socket = WebSocket(url)
        self.numbers = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.call("Page.close")
        self.socket.socket.close()

    def call(self, method: str, **parameters) -> dict:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.message())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.keep(message)

    def keep(self, message: dict) -> None:
        method, parameters = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"][:200])

    def navigate(self, path: Path) -> None:
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.documentElement?.dataset.ready !== undefined || document.getElementById('failure') !== null",
                      "the page is built")

    def evaluate(self, expression: str):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, expression: str, what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.evaluate(f"!!({expression})"):
                return
            time.sleep(0.03)
        raise TimeoutError(f"{what}: not within {seconds} s; errors so far: {self.errors}")

    def settle(self) -> None:
        """Waits for two frames, so that everything requested is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def box(self, selector: str) -> dict:
        """Scrolls to an element and returns its position on the screen."""
        return self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            " return {x: b.x, y: b.y, width: b.width, height: b.height}; })()")

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        box = self.box(selector)
        self.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def click_at(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1, buttons=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", clickCount=1, buttons=1)
        for part in (0.25, 0.5, 0.75, 1.0):
            self.mouse("mouseMoved", x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, button="left", buttons=1)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1)
        self.settle()

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.settle()

    def key(self, key: str) -> None:
        name, code, text = KEYS.get(key, (key, ord(key.upper()[0]), key))
        press = {"key": name, "windowsVirtualKeyCode": code} | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **press)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)
        self.settle()

    def type(self, selector: str, text: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
