"""Parked threads: work is done once, idle threads are used again, a stuck one holds nobody up."""

from __future__ import annotations

import threading

from treadle.threads import PARKED_MOST, ParkedThreads

PATIENCE_S = 5


def done_in(threads: ParkedThreads) -> threading.Thread:
    """Run something and return the thread that did it, once it is done."""
    seen: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    threads.run(work)
    assert done.wait(PATIENCE_S)
    return seen[0]


def parked(threads: ParkedThreads, count: int) -> None:
    """Wait until so many threads are idle: parking follows the end of the work."""
    reached = threading.Event()

    def look() -> None:
        while len(threads._idle) < count:
            if reached.wait(0.001):
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(PATIENCE_S)
    reached.set()
    assert len(threads._idle) >= count


def test_an_idle_thread_is_used_again() -> None:
    threads = ParkedThreads("t")
    first = done_in(threads)
    parked(threads, 1)
    assert done_in(threads) is first


def test_a_thread_that_is_stuck_holds_nobody_up() -> None:
    """Decision 14."""
    threads = ParkedThreads("t")
    release = threading.Event()

    def stuck() -> None:
        release.wait(PATIENCE_S)

    threads.run(stuck)
    assert done_in(threads).is_alive()
    release.set()


def test_no_more_than_a_few_are_kept() -> None:
    threads = ParkedThreads("t")
    together = threading.Barrier(PARKED_MOST + 4)

    def meet() -> None:
        together.wait(PATIENCE_S)

    for _ in range(PARKED_MOST + 3):
        threads.run(meet)
    together.wait(PATIENCE_S)
    parked(threads, PARKED_MOST)
    assert len(threads._idle) == PARKED_MOST


def test_closing_lets_idle_threads_end_and_none_is_kept_afterwards() -> None:
    threads = ParkedThreads("t")
    idle = done_in(threads)
    parked(threads, 1)
    threads.close()
    idle.join(PATIENCE_S)
    assert not idle.is_alive()
    late = done_in(threads)
    late.join(PATIENCE_S)
    assert not late.is_alive()
