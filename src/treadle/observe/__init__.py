"""Floor 2: event names, bound ids, the log and the counters. Knows no other room but `model`."""

from treadle.observe.counters import Counters
from treadle.observe.events import EVENTS, Event, Level
from treadle.observe.log import Log, bind, bound, emit, masked_session_key, open_log

__all__ = [
    "EVENTS",
    "Counters",
    "Event",
    "Level",
    "Log",
    "bind",
    "bound",
    "emit",
    "masked_session_key",
    "open_log",
]
