"""Runs a program on a new terminal and types into it."""

import os
import pty
import select
import time


class Terminal:
    """Starts a program on a new terminal; `environment` replaces the caller's."""

    def __init__(self, argv: list[str], environment: dict[str, str]):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, environment)
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def read_until(self, text: str, timeout_s: float = 30) -> str:
        """The output since the last call, up to and including `text`."""
        deadline = time.monotonic() + timeout_s
        while text not in self.shown:
            if not self._read_more(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not appear; the terminal shows {self.shown!r}")
        end = self.shown.index(text) + len(text)
        seen, self.shown = self.shown[:end], self.shown[end:]
        return seen

    def read_to_end(self, timeout_s: float = 60) -> str:
        deadline = time.monotonic() + timeout_s
        while self._read_more(deadline - time.monotonic()):
            pass
        return self.shown

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def _read_more(self, timeout_s: float) -> bool:
        if timeout_s <= 0 or not select.select([self.fd], [], [], timeout_s)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:  # on Linux: the program has closed its side
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)
