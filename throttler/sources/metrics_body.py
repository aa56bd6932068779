"""A /metrics body as it arrives, compressed or not: inflated and filtered piece by piece, within limits.

Runs in a worker thread. Holds the wanted lines and one megabyte, however large the body is.
"""

import zlib

from throttler.signals.metrics_text import BadTextError, WantedLines, parse_rows
from throttler.signals.sample import Sample, sample_from_rows
from throttler.sources.outcome import ReadError, ReadOutcome

MAX_INFLATED_BYTES = 100 * 1024 * 1024
"""Twice the largest body that a real cluster has been seen to have."""
STEP_BYTES = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class MetricsBody:
    """Takes the body's bytes as they were sent; every method may raise ReadError."""

    def __init__(self, encoding: str) -> None:
        if encoding not in {"", "identity", "gzip"}:
            raise ReadError(ReadOutcome.UNREADABLE, "answered in an encoding that was not asked for")
        self._inflater = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        self._lines = WantedLines()
        self._inflated_bytes = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        try:
            self._inflate(piece) if self._inflater else self._take(piece)
        except zlib.error as error:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with broken gzip") from error
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def finish(self, *, asked_s: float, taken_s: float, wall_s: float | None) -> Sample:
        """The whole body as a sample."""
        if self._inflater and not self._inflater.eof:
            raise ReadError(ReadOutcome.UNREADABLE, "answered with gzip that breaks off")
        try:
            rows = parse_rows(self._lines.finish())
            return sample_from_rows(rows, asked_s=asked_s, taken_s=taken_s, wall_s=wall_s)
        except BadTextError as error:
            raise ReadError(ReadOutcome.UNREADABLE, str(error)) from error

    def _inflate(self, piece: bytes) -> None:
        assert self._inflater is not None
        while piece and not self._inflater.eof:
            self._take(self._inflater.decompress(piece, STEP_BYTES))
            piece = self._inflater.unconsumed_tail
        if self._inflater.unused_data or (piece and self._inflater.eof):
            raise ReadError(ReadOutcome.UNREADABLE, "answered with more after the end of its gzip")

    def _take(self, text: bytes) -> None:
        self._inflated_bytes += len(text)
        if self._inflated_bytes > MAX_INFLATED_BYTES:
            raise ReadError(ReadOutcome.TOO_LARGE, f"more than {MAX_INFLATED_BYTES // 1024**2} MB of metrics")
        self._lines.feed(text)
