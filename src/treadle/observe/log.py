"""The log: one JSON object a line, written by a thread of its own, free of secrets.

`emit` is what the house calls; it takes names from the table only and adds the ids that `bind`
holds for the current task. Knows nothing of rooms, and decides nothing about turns.
"""

from __future__ import annotations

import copy
import json
import logging
import logging.handlers
import os
import queue
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from treadle.model.json import JsonValue
from treadle.model.text import Redactor, printable, truncate
from treadle.observe.events import EVENTS, Level
from treadle.private import DIRECTORY_MODE, open_private

LOGGER_NAME: Final = "treadle"
"""The stdlib logger that carries all events."""

LOG_FILE: Final = "treadle.jsonl"
"""Name of the newest log file in the log directory; older ones end in `.1`, `.2` …"""

BOUND_NAMES: Final = frozenset({
    "agent_id", "attempt", "engine", "run_id", "session_id", "session_key", "thread_id", "turn_id",
})  # fmt: skip
"""Names that `bind` takes."""

MAX_TEXT_CHARS: Final = 2000
"""Characters of one text in a record: a log is no place for prompts. Source: spec T-03."""

MAX_ERROR_CHARS: Final = 8000
"""Characters of a traceback; its end, where the error stands, is kept."""

MAX_WAITING_RECORDS: Final = 10_000
"""Records that may wait for the writer; newer ones are dropped and counted."""

_RESERVED: Final = frozenset({"time", "level", "event", "message", "error"})
_LIBRARIES: Final = ("asyncio",)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_logger = logging.getLogger(LOGGER_NAME)
_logger.addHandler(logging.NullHandler())  # without a log, warnings must not land on stderr
_bound: ContextVar[Mapping[str, JsonValue]] = ContextVar("treadle_bound", default={})  # noqa: B039


@contextmanager
def bind(**ids: JsonValue) -> Iterator[None]:
    """Add ids to every event of this task and of the tasks it starts, until the block ends.

    Raises: ValueError for a name outside `BOUND_NAMES`.
    """
    if strange := ids.keys() - BOUND_NAMES:
        raise ValueError(f"cannot bind {sorted(strange)!r}; allowed: {sorted(BOUND_NAMES)!r}")
    token = _bound.set({**_bound.get(), **ids})
    try:
        yield
    finally:
        _bound.reset(token)


def bound() -> Mapping[str, JsonValue]:
    """Return the ids that hold for this task."""
    return dict(_bound.get())


def emit(event: str, *, cause: BaseException | None = None, **fields: JsonValue) -> None:
    """Log one event of the table, with the bound ids, the fields, and an error if there is one.

    Never blocks: the record goes to the writer's thread. Durations end in `_s`, sizes in `_bytes`,
    counts in `_count`. Raises: ValueError for an unknown event or a reserved field name.
    """
    row = EVENTS.get(event)
    if row is None:
        raise ValueError(f"{event!r} is no event of observe.events")
    if clash := fields.keys() & _RESERVED:
        raise ValueError(f"{event!r} cannot have the fields {sorted(clash)!r}")
    if not _logger.isEnabledFor(row.level):
        return
    extra = {"event": event, "fields": {**_bound.get(), **fields}}
    error = (type(cause), cause, cause.__traceback__) if cause is not None else None
    _logger.log(row.level, row.message, extra=extra, exc_info=error)


def masked_session_key(key: str) -> str:
    """Return the key with its last part as a short hash: it can be a phone number or a name.

    Equal keys stay equal. Source: spec T-02.
    """
    head, colon, name = key.rpartition(":")
    return f"{head}{colon}~{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


class _ToWriter(logging.handlers.QueueHandler):
    """Hands records to the writer; what does not fit is counted and reported later."""

    def __init__(self, waiting: queue.SimpleQueue[logging.LogRecord | None]) -> None:
        super().__init__(waiting)
        self._waiting = waiting
        self.dropped_count = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Freeze what another thread must not touch: arguments and live exceptions."""
        prepared = copy.copy(record)
        prepared.msg, prepared.args = record.getMessage(), None
        if record.exc_info and record.exc_info[1] is not None:
            prepared.exc_text = "".join(traceback.format_exception(record.exc_info[1]))
        prepared.exc_info = None
        return prepared

    def enqueue(self, record: logging.LogRecord) -> None:
        """Drop the record when too many wait."""
        if self._waiting.qsize() >= MAX_WAITING_RECORDS:
            self.dropped_count += 1
            return
        self.report_dropped()
        self._waiting.put(record)

    def report_dropped(self) -> None:
        """Say how many records were dropped since the last report, if any were."""
        if self.dropped_count:
            self._waiting.put(_record("log.dropped", {"dropped_count": self.dropped_count}))
            self.dropped_count = 0


def _record(event: str, fields: Mapping[str, JsonValue]) -> logging.LogRecord:
    row = EVENTS[event]
    record = logging.LogRecord(LOGGER_NAME, row.level, __file__, 0, row.message, None, None)
    record.__dict__.update(event=event, fields=fields)
    return record


class _Redacting(logging.Formatter):
    """The edge: what leaves is redacted, printable and bounded."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def payload(self, record: logging.LogRecord) -> dict[str, JsonValue]:
        """Return the record as a JSON object, safe to write."""
        attributes = record.__dict__
        fields = dict(attributes.get("fields", {}))
        key = fields.get("session_key")
        if isinstance(key, str):
            fields["session_key"] = masked_session_key(key)
        if "event" not in attributes:
            fields["library"] = record.name
        safe = self._log.redactor.redact_value(_plain(fields))
        assert isinstance(safe, dict)
        if record.exc_text:
            safe["error"] = printable(self._log.redactor.redact(record.exc_text))[-MAX_ERROR_CHARS:]
        return {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": attributes.get("event", "library.logged"),
            "message": _bounded(self._log.redactor.redact(record.getMessage())),
            **{name: value if name == "error" else _bounded(value) for name, value in safe.items()},
        }

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        return _ENCODER.encode(self.payload(record))


class _ForPeople(_Redacting):
    """`level message name=value …` for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, an error's traceback below it."""
        payload = self.payload(record)
        error = payload.pop("error", None)
        head = f"{payload.pop('level')}: {payload.pop('message')}"
        del payload["time"], payload["event"]
        parts = [head, *(f"{name}={_shown(value)}" for name, value in payload.items())]
        return " ".join(parts) + (f"\n{error}" if error else "")


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> JsonValue:
    """Turn what is no JSON (a path, an enum, an exception) into its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    return str(value)


def _bounded(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return truncate(printable(value), MAX_TEXT_CHARS, "… ({dropped} more characters)")
    if isinstance(value, Mapping):
        return {printable(name): _bounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_bounded(part) for part in value]
    return value


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotated file that only its owner can read, whatever the umask; never through a link."""

    def _open(self) -> TextIOWrapper:
        descriptor = open_private(self.baseFilename, os.O_WRONLY | os.O_APPEND)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    failed_count = 0
    _formatted: tuple[logging.LogRecord, str] | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Format each record once: rotating asks for its length before it is written."""
        if self._formatted is None or self._formatted[0] is not record:
            self._formatted = (record, super().format(record))
        return self._formatted[1]

    def handleError(self, record: logging.LogRecord) -> None:
        """Count the lost record: a full disk must neither stop turns nor flood the terminal."""
        self.failed_count += 1

    def close(self) -> None:
        """Close the file; what a full disk refused stays lost, and is counted."""
        try:
            super().close()
        except OSError:
            self.failed_count += 1


class Log:
    """An open log; `open_log` makes it."""

    __slots__ = ("_file", "directory", "redactor")

    def __init__(self, directory: Path | None, redactor: Redactor) -> None:
        self.directory = directory
        self.redactor = redactor
        self._file: _PrivateRotatingFile | None = None

    @property
    def failed_count(self) -> int:
        """Records that could not be written, as with a full disk. Source: INV-25."""
        return self._file.failed_count if self._file is not None else 0


@contextmanager
def open_log(
    directory: Path | None,
    *,
    level: Level = Level.INFO,
    redactor: Redactor | None = None,
    stderr_level: Level | None = None,
    max_bytes: int = 10_000_000,
    keep_count: int = 5,
) -> Iterator[Log]:
    """Write events to `directory` (0700, files 0600, rotated) and, if asked, to stderr.

    `directory` None writes no file. On exit, which blocks, all waiting records are written and the
    handlers are gone: open it round the event loop, not within. One log at a time in
    a process. Raises: OSError when the directory or file cannot be made.
    """
    log = Log(directory, redactor or Redactor())
    targets: list[logging.Handler] = []
    if directory is not None:
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        directory.chmod(DIRECTORY_MODE)
        file = _PrivateRotatingFile(
            directory / LOG_FILE, maxBytes=max_bytes, backupCount=keep_count, encoding="utf-8"
        )
        file.setLevel(level)
        file.setFormatter(_Redacting(log))
        targets.append(file)
        log._file = file
    if stderr_level is not None:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setLevel(stderr_level)
        terminal.setFormatter(_ForPeople(log))
        targets.append(terminal)
    lowest = min((handler.level for handler in targets), default=logging.CRITICAL)
    waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
    listener = logging.handlers.QueueListener(waiting, *targets, respect_handler_level=True)
    to_writer = _ToWriter(waiting)
    with _attached(to_writer, lowest):
        listener.start()
        try:
            yield log
        finally:
            to_writer.report_dropped()
            listener.stop()
            for handler in targets:
                handler.close()


@contextmanager
def _attached(handler: logging.Handler, level: int) -> Iterator[None]:
    """Route our logger and the libraries' warnings into the handler, then put all back."""
    loggers = [_logger, *(logging.getLogger(name) for name in _LIBRARIES)]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(level if logger is _logger else logging.WARNING)
    try:
        yield
    finally:
        for logger, old_level, propagates in before:
            logger.removeHandler(handler)
            logger.setLevel(old_level)
            logger.propagate = propagates
