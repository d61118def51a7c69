"""Measure how long a thread's setup takes, stage by stage, by the injected clock.

Knows nothing of what the stages do. Source: spec T-06.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from treadle.clock import Clock
from treadle.observe import emit

SLOW_TOTAL_S: Final = 1.0
"""Seconds for all stages from which on the setup is reported as slow."""

SLOW_STAGE_S: Final = 0.5
"""The same for one stage."""


class SetupStages:
    """The stages of one thread's setup; `report` says at most once how long they took."""

    def __init__(self, clock: Clock) -> None:
        """Begin with no stage."""
        self._clock = clock
        self._took_s: dict[str, float] = {}
        self._is_reported = False

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure one stage; a name that comes again adds up."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            took = self._clock.monotonic() - began
            self._took_s[name] = self._took_s.get(name, 0.0) + took

    def report(self) -> None:
        """Warn where the setup was slow, else leave a trace."""
        if self._is_reported:
            return
        self._is_reported = True
        total = sum(self._took_s.values())
        is_slow = total >= SLOW_TOTAL_S or max(self._took_s.values(), default=0) >= SLOW_STAGE_S
        emit(
            "thread.setup_slowed" if is_slow else "thread.setup_measured",
            total_s=round(total, 3),
            stages={name: round(seconds, 3) for name, seconds in self._took_s.items()},
        )
