"""A run in another process, as its caller sees it: the same events, whatever happens in between.

Knows nothing of the command that watches. The events come from the session's stream; a lost
connection is made anew, also to another owner, and the message is sent again under its id, which is
the same message (INV-2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from treadle.gateway import requests as asked
from treadle.gateway.attach import Attachment, Owned
from treadle.gateway.client import GatewayClient
from treadle.gateway.cursor import OPENED, SNAPSHOT, Cursor, Step
from treadle.gateway.records import event_from
from treadle.model.errors import GatewayLost, RemoteProtocolError, TreadleError
from treadle.model.ids import EntryId, ItemId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import (
    EntryCommitted,
    Outcome,
    PartDelta,
    RunEvent,
    RunFinished,
)
from treadle.runtime.handle import RunHandle

INTERRUPT_S: Final = 30.0
"""Seconds for the owner to take the wish to stop; the run itself may take longer to end."""


class _Missed(Exception):
    """Events of the run were told while nobody listened, and can no longer be replayed."""


@dataclass(slots=True)
class Seen:
    """What of a run was seen, so that nothing of it is told twice (cursor rules 4 to 6). Pure."""

    _lengths: dict[ItemId, int] = field(default_factory=dict)
    _entries: set[EntryId] = field(default_factory=set)

    def fresh(self, event: RunEvent) -> RunEvent | None:
        """Return what is new of an event; None if nothing is."""
        match event:
            case PartDelta():
                known = self._lengths.get(event.part, 0)
                skip = max(0, known - event.at)
                text = event.text[skip:]
                if not text:
                    return None
                self._lengths[event.part] = event.at + skip + len(text)
                return replace(event, at=event.at + skip, text=text)
            case EntryCommitted():
                if event.entry.id in self._entries:
                    return None
                self._entries.add(event.entry.id)
        return event


class RemoteRun:
    """Follows one run to its end and publishes what happens to a handle."""

    def __init__(self, attachment: Attachment, request: asked.Submit, handle: RunHandle) -> None:
        self._attachment = attachment
        self._request = request
        self._handle = handle
        self._seen = Seen()

    async def follow(self, client: GatewayClient, acknowledged: JsonObject) -> None:
        """Follow it to its end; never raises. Cancel: the run goes on."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._pass_interrupt_on)
            try:
                await self._to_the_end(client, acknowledged)
            except TreadleError as error:
                await self._handle.publish(self._failed(error))
            group.cancel_scope.cancel()

    async def _to_the_end(self, client: GatewayClient, acknowledged: JsonObject) -> None:
        cursor = cursor_in(acknowledged)
        while self._handle.finished is None:
            finished = acknowledged.get("finished")
            if isinstance(finished, dict):
                await self._publish("run.finished", finished)
                return
            try:
                await self._watch(client, cursor)
            except (GatewayLost, _Missed):
                target = await self._attachment.target()
                if isinstance(target, Owned):
                    await self._here(target)
                    return
                client = target
                acknowledged = await client.submit(self._request)

    async def _watch(self, client: GatewayClient, cursor: Cursor) -> None:
        """Follow the stream until the run is over, or is to be followed anew from the cursor."""
        async with client.watch(cursor) as events:
            async for envelope in events:
                match cursor.take(envelope):
                    case Step.RESUBSCRIBE:
                        return
                    case Step.APPLY:
                        await self._apply(envelope)
                if self._handle.finished is not None:
                    return
        if client.is_lost:
            raise GatewayLost("the process that owns the state directory went away")

    async def _apply(self, envelope: JsonObject) -> None:
        data, kind = envelope.get("data"), envelope.get("type")
        if not isinstance(data, dict):
            raise RemoteProtocolError("the gateway sent an event without data")
        if kind == OPENED and data.get("mode") != "replay":
            raise _Missed
        if kind == SNAPSHOT:
            await self._apply_snapshot(data)
        elif envelope.get("run") == self._handle.run_id:
            await self._publish(str(kind), data)

    async def _apply_snapshot(self, data: JsonObject) -> None:
        for run in _objects(data.get("runs")):
            if run.get("run") != self._handle.run_id:
                continue
            for part in _objects(run.get("parts")):
                kind = "part.value" if "value" in part else "part.delta"
                await self._publish(kind, part if "value" in part else {"at": 0, **part})

    async def _publish(self, kind: str, data: JsonObject) -> None:
        event = event_from(kind, self._handle.run_id, data)
        fresh = None if event is None else self._seen.fresh(event)
        if fresh is not None:
            await self._handle.publish(fresh)

    async def _here(self, owned: Owned) -> None:
        """Follow the run in this process, which has become the owner."""
        handle, _ = await owned.gateway.submit(self._request)
        async for event in handle:
            fresh = self._seen.fresh(event)
            if fresh is not None:
                await self._handle.publish(fresh)

    async def _pass_interrupt_on(self) -> None:
        await self._handle.abort.wait()
        request = asked.Interrupt(run=self._handle.run_id, reason=self._handle.abort.reason or "")
        with anyio.move_on_after(INTERRUPT_S):
            while self._handle.finished is None:
                target = await self._attachment.target()
                try:
                    if isinstance(target, Owned):
                        await target.gateway.answer(request)
                    else:
                        await target.ask(request)
                except GatewayLost:
                    continue  # to the next owner, who takes the run up
                return

    def _failed(self, error: TreadleError) -> RunFinished:
        return RunFinished(
            run_id=self._handle.run_id,
            outcome=Outcome.FAILED,
            text="",
            error=error.to_json(),
            replay_safe=False,
            partial=False,
            usage=None,
            duration_s=0.0,
        )


def cursor_in(acknowledged: JsonObject) -> Cursor:
    """Return the place behind which all events of an acknowledged run stand."""
    stream = acknowledged.get("stream")
    if not isinstance(stream, Mapping):
        raise RemoteProtocolError("the gateway acknowledged a message without its stream")
    epoch, after = stream.get("epoch"), stream.get("after")
    return Cursor(
        stream=str(stream.get("id")),
        epoch=epoch if isinstance(epoch, int) else None,
        seq=after if isinstance(after, int) else None,
    )


def _objects(value: JsonValue) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
