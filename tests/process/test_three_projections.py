"""The engine's whole life on the real Codex in all three projections, and engines that fail.

The engine is chosen by `plugins.slots.contextEngine` and the model by a `codex/…` reference in
`agents.defaults.model`: Codex's own provider, whose address is the scripted model's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from tests.process.rig import TURN_S, Rig, Turn, assert_grows, echo_tool, rig_over_model
from treadle.contract.engine import (
    AfterTurnParams,
    AssembleParams,
    BootstrapParams,
    ContextProjection,
    EngineFactory,
    MaintainParams,
)
from treadle.model.message import text_of
from treadle.model.turn import Outcome
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import BreakingEngine, Called, Fault, RecordingEngine
from treadle.testing.model import HttpError, gate
from treadle.testing.recorded import Request
from treadle.testing.replies import call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

Carrier = Literal["history", "prompt", "bootstrap"]
CARRIERS: tuple[Carrier, ...] = ("history", "prompt", "bootstrap")
MODEL = "codex/gpt-5.5"
WINDOW = 64_000
ADDITION = "ADDITION: be kind."
MEMORY = "MEMORY: the person likes tea."


def remembering(carrier: Carrier, **more: Any) -> RecordingEngine:
    """Return an engine that asks for its carrier as engines can, and adds text and a memory."""
    projection = ContextProjection(mode="thread_bootstrap", epoch="e1", fingerprint="f1")
    engine = RecordingEngine(addition=ADDITION, recalled=MEMORY, **more)
    if carrier == "bootstrap":
        engine.projection = projection
    return engine


@asynccontextmanager
async def opened(
    rig: Rig, engines: Mapping[str, EngineFactory], carrier: Carrier = "history"
) -> AsyncIterator[Runtime]:
    """Open Treadle on Codex's own provider, signed in with a key that is nobody's."""
    rig.keys |= {
        ("models", "providers", "openai", "baseUrl"): rig.model.base_url,
        ("models", "providers", "openai", "models", "gpt-5.5", "contextWindow"): WINDOW,
        ("log", "level"): "debug",
    }
    if carrier != "bootstrap":
        rig.keys["plugins", "entries", "codex", "config", "projection"] = carrier
    (engine_id,) = engines
    async with rig.opened(
        engine=engine_id, engines=engines, model=MODEL, tools=[echo_tool()]
    ) as runtime:
        _keep_off_the_network(rig)  # before anything starts Codex
        await runtime.accounts.login_api_key("main", "sk-nobodys-key-0123456789abcdef")
        yield runtime


def _keep_off_the_network(rig: Rig) -> None:
    """Switch off what a signed-in Codex looks for at each turn, in the home's own settings.

    It asks for its list of models at each turn while it has none: of the scripted model, which
    answers at once, in place of five tries in three seconds at an address that no test reaches.
    """
    for folder in (rig.codex_home.parent.parent, rig.codex_home.parent, rig.codex_home):
        folder.mkdir(mode=0o700, exist_ok=True)
    features = "\n".join(f"{name} = false" for name in ("plugins", "apps", "remote_plugin"))
    (rig.codex_home / "config.toml").write_text(
        f'openai_base_url = "{rig.model.base_url}"\n[features]\n{features}\n', encoding="utf-8"
    )


def logged(rig: Rig, *events: str) -> list[dict[str, Any]]:
    """Return the log's records of these events, in order."""
    files = sorted((rig.state / "logs").iterdir())
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return [one for line in lines if (one := json.loads(line)).get("event") in events]


def asked(engine: RecordingEngine, operation: str) -> Called:
    """Return the engine's last call of that name."""
    return [one for one in engine.calls if one.operation == operation][-1]


def assert_context_before_request(carrier: Carrier, request: Request, prompt: str) -> None:
    """Assert what the model saw: memory, then request, the request last; the addition elsewhere.

    A thread that is given text in each turn has that of the earlier turns too (spec S8).
    """
    said = request.texts("user")
    fresh = said[-1] if carrier == "prompt" else "\n".join(said)
    assert fresh.count(MEMORY) == 1
    assert fresh.index(MEMORY) < fresh.rindex(prompt)
    assert said[-1].endswith(prompt)
    assert ADDITION not in "\n".join(said)
    assert sum(text.count(ADDITION) for text in request.texts("developer")) == 1


# --------------------------------------------------------------------------- the whole life


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_an_engine_is_asked_in_order_and_its_context_precedes_the_request(
    carrier: Carrier, codex_binary: Path, scratch: Path
) -> None:
    """Spec W-01, W-02, W-04, W-06, W-07, A-20, B-10, B-14, E-02: two turns, one with a tool."""
    engine = remembering(carrier)
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened(rig, {"recording": lambda _: engine}, carrier) as runtime,
    ):
        session = rig.session(runtime)
        first = await rig.turn(session, "first request", "first answer")
        assert engine.operations == ["assemble", "after_turn", "maintain", "dispose"]
        assert asked(engine, "assemble").messages == ()
        engine.calls.clear()
        note = reply(call("note", {"n": 1}, call_id="call_1"))
        second = await rig.turn(session, "second request", note, "second answer")
        after = _checked_calls(engine)
        assert after.params is not None
    assert_context_before_request(carrier, first.requests[0], "first request")
    assert_context_before_request(carrier, second.requests[0], "second request")
    assert second.thread_id == first.thread_id
    if carrier != "prompt":
        assert_grows([*first.requests, *second.requests])
    decided = logged(rig, "projection.decided")
    wanted = "thread_bootstrap" if carrier == "bootstrap" else "per_turn"
    assert {one["mode"] for one in decided} == {wanted}


def _checked_calls(engine: RecordingEngine) -> Called:
    """Check the second turn's calls; return the one that handed it over."""
    assert engine.operations == [
        "bootstrap",
        "maintain",
        "assemble",
        "after_turn",
        "maintain",
        "dispose",
    ]
    reasons = [c.params.reason for c in engine.calls if isinstance(c.params, MaintainParams)]
    assert reasons == ["bootstrap", "turn"]
    bootstrapped = asked(engine, "bootstrap")
    assert isinstance(bootstrapped.params, BootstrapParams)
    before = ["first request", "first answer"]
    assert [text_of(one) for one in bootstrapped.messages] == before
    assembled = asked(engine, "assemble")
    params = assembled.params
    assert isinstance(params, AssembleParams)
    assert [text_of(one) for one in assembled.messages] == before
    assert (params.prompt, params.model, params.token_budget, params.citations_mode) == (
        "second request",
        "gpt-5.5",
        WINDOW,
        "auto",
    )
    assert {"note", "memory_search"} <= params.available_tools
    after = asked(engine, "after_turn")
    assert isinstance(after.params, AfterTurnParams)
    assert after.params.pre_prompt_message_count == 2
    assert [text_of(one) for one in after.messages][:3] == [*before, "second request"]
    assert text_of(after.messages[-1]) == "second answer"
    assert all(one.entry_id is not None for one in after.messages), "the mirror came first"
    return after


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained(
    carrier: Carrier, codex_binary: Path, scratch: Path
) -> None:
    """Spec W-01, W-06, W-07, I-08 to I-10, S-10: and the turn after them is as good as any."""
    engine = remembering(carrier)
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened(rig, {"recording": lambda _: engine}, carrier) as runtime,
    ):
        session = rig.session(runtime)
        await rig.turn(session, "first request", "first answer")
        engine.calls.clear()
        rig.model.enqueue(HttpError(400, {"error": {"message": "no such thing"}}))
        with anyio.fail_after(TURN_S):
            failed = await session.run("second request").result()
        assert failed.outcome is Outcome.FAILED
        held = gate()
        rig.model.enqueue(reply(held))
        with anyio.fail_after(TURN_S):
            run = session.run("third request")
            await held.reached.wait()
            run.interrupt()
            stopped = await run.result()
        assert stopped.outcome is Outcome.STOPPED
        assert (
            engine.operations == ["bootstrap", "maintain", "assemble", "after_turn", "dispose"] * 2
        )
        skipped = [one["reason"] for one in logged(rig, "engine.maintenance_skipped")]
        fine = await rig.turn(session, "fourth request", "fourth answer")
    assert skipped[-2:] == ["prompt error", "aborted"]
    assert_context_before_request(carrier, fine.requests[0], "fourth request")
    assert engine.operations[-3:] == ["after_turn", "maintain", "dispose"]


@pytest.mark.parametrize(
    ("takes", "carrier"),
    [("ingest", "history"), ("ingest_batch", "prompt"), ("ingest_batch", "bootstrap")],
)
async def test_an_engine_of_the_documents_alone_is_given_each_message_once(
    takes: Literal["ingest_batch", "ingest"], carrier: Carrier, codex_binary: Path, scratch: Path
) -> None:
    """Spec B-48, W-06, W-07, I-04, I-05: no `commitTurn`, no declarations, served on each turn."""
    engine = remembering(carrier, takes=takes, has_bootstrap=False, has_maintain=False)
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened(rig, {"recording": lambda _: engine}, carrier) as runtime,
    ):
        session = rig.session(runtime)
        turns = [await rig.turn(session, f"request {n}.", f"answer {n}.") for n in range(1, 4)]
    given = [text_of(one) for c in engine.calls if c.operation == takes for one in c.messages]
    assert given == [f"{kind} {n}." for n in range(1, 4) for kind in ("request", "answer")]
    for number, turn in enumerate(turns, start=1):
        assert_context_before_request(carrier, turn.requests[0], f"request {number}.")


@pytest.mark.parametrize("carrier", ["history", "prompt"])
async def test_without_an_engine_nothing_changes_whatever_the_projection(
    carrier: Carrier, codex_binary: Path, scratch: Path
) -> None:
    """Spec A-20, W-06: legacy sends the prompt alone, and no engine event is logged."""
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened(rig, {"recording": lambda _: RecordingEngine()}, carrier) as runtime,
    ):
        session = rig.session(runtime)
        turns: list[Turn] = []
        for number in (1, 2):
            rig.model.enqueue(f"answer {number}")
            seen = len(rig.model.requests)
            with anyio.fail_after(TURN_S):
                run = session.run(f"request {number}", engine="legacy")
                events = tuple([event async for event in run])
            turns.append(Turn(events=events, requests=tuple(rig.model.requests[seen:])))
    assert [turn.requests[0].texts("user")[-1] for turn in turns] == ["request 1", "request 2"]
    assert_grows([request for turn in turns for request in turn.requests])
    assert logged(rig, "engine.assemble_applied", "engine.finalize_completed") == []


# ----------------------------------------------------------------------- engines that fail


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """One way to fail for ten turns, and what is left of it."""

    fault: Fault
    on: str
    calls: frozenset[int] | None
    event: str
    faults: int
    """How many turns failed, one log line each."""

    state: str
    failing_runs: int
    turn_maintenance: int
    more: dict[tuple[str, ...], Any] = field(default_factory=dict)


FAULTY = {
    "assemble fails at turn 3 and recovers at 4": Faulty(
        fault="throws",
        on="assemble",
        calls=frozenset({3}),
        event="engine.assemble_failed",
        faults=1,
        state="ready",
        failing_runs=0,
        turn_maintenance=10,
    ),
    "afterTurn always throws": Faulty(
        fault="throws",
        on="after_turn",
        calls=None,
        event="engine.finalize_failed",
        faults=3,
        state="quarantined",
        failing_runs=3,
        turn_maintenance=0,
    ),
    "assemble hangs": Faulty(
        fault="sleeps",
        on="assemble",
        calls=None,
        event="engine.assemble_failed",
        faults=3,
        state="quarantined",
        failing_runs=3,
        turn_maintenance=3,
        more={("deadlines", "engineCallSeconds"): 1.0},
    ),
    "afterTurn hangs now and then": Faulty(
        fault="sleeps",
        on="after_turn",
        calls=frozenset({2, 5, 8}),
        event="engine.finalize_failed",
        faults=3,
        state="ready",
        failing_runs=0,
        turn_maintenance=7,
        more={("deadlines", "engineCallSeconds"): 1.0},
    ),
}


class Counted(BreakingEngine):
    """Notes why it was maintained."""

    def __init__(self, case: Faulty) -> None:
        super().__init__(case.fault, on=case.on, calls=case.calls)
        self.reasons: list[str] = []

    def maintain(self, params: MaintainParams) -> object:
        """Note the reason."""
        self.reasons.append(params.reason)
        return super().maintain(params)


@pytest.mark.parametrize("case", FAULTY.values(), ids=FAULTY.keys())
async def test_ten_turns_under_a_failing_engine_lose_no_reply(
    case: Faulty, codex_binary: Path, scratch: Path
) -> None:
    """Spec B-45, B-47, S-02, S-05, I-07; issue 3 done-when 5: one clear line a fault, health."""
    engine = Counted(case)
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys |= {("log", "level"): "debug", **case.more}
        async with rig.opened(engine="breaking", engines={"breaking": lambda _: engine}) as runtime:
            session: Session = rig.session(runtime)
            turns = [await rig.turn(session, f"request {n}.", f"answer {n}.") for n in range(1, 11)]
            (health,) = [one for one in _engines(runtime.health()) if one["id"] == "breaking"]
            stuck = runtime.health()["stuck_calls"]
    assert [turn.text for turn in turns] == [f"answer {n}." for n in range(1, 11)]
    failures = logged(rig, case.event)
    assert len(failures) == case.faults
    assert all(one["level"] == "warning" and one["reason"] for one in failures)
    assert (health["state"], health["failing_runs"]) == (case.state, case.failing_runs)
    assert stuck == []
    assert engine.reasons.count("turn") == case.turn_maintenance
    assert len(logged(rig, "engine.quarantined")) == (case.state == "quarantined")
    unserved = [turn.notices.count("engine_unavailable") for turn in turns]
    assert sum(unserved) == (7 if case.state == "quarantined" else 0)
    assert_grows([request for turn in turns for request in turn.requests])
    assert turns[-1].requests[0].texts("user")[-1] == "request 10."


def _engines(health: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(health["engines"])
