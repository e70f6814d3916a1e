"""What the service did, one JSON object a line; never what a context holds, nor a key."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections import deque
from datetime import UTC, datetime
from typing import TextIO

FLUSH_SECONDS = 0.2
_in_json = json.JSONEncoder(default=str).encode
MAX_LINES_HELD = 20_000


class Journal:
    """Lines that a thread of its own writes, so that whoever does the work never waits for who reads them.

    When nobody reads, the oldest lines give way, and a line says how many.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, event: str, **fields: object) -> None:
        """Note an event with the fields that say more of it."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        if len(self._lines) >= MAX_LINES_HELD:
            self._lines.popleft()
            self._dropped += 1
        self._lines.append(_in_json({"at": at, "event": event, **fields}))
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_writing, name="pacbandits journal", daemon=True)
            self._thread.start()

    def error(self, event: str, error: BaseException, **fields: object) -> None:
        """Note an error that nobody foresaw, with where it came from and without the values that it speaks of."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.write(event, error=type(error).__name__, places=places, **fields)

    def close(self) -> None:
        """Write what is left, and end."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _keep_writing(self) -> None:
        while not self._over.wait(FLUSH_SECONDS):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        held: list[str] = []
        while self._lines:
            held.append(self._lines.popleft())
        if self._dropped:
            held.append(_in_json({"event": "lines left out", "count": self._dropped}))
            self._dropped = 0
        if held:
            stream = self._stream or sys.stderr
            try:
                stream.write("\n".join(held) + "\n")
                stream.flush()
            except (OSError, ValueError):  # whoever read them has gone
                return
