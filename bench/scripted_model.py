"""The scripted model in a process of its own, so that its CPU time is nobody else's.

Prints its address, then one JSON line a model request: when it had arrived (seconds of the
monotonic clock, which all processes of a machine share), its bytes and how many items it held. Ends
with its stdin. Knows nothing of what is measured.
"""

from __future__ import annotations

import json
import sys

import anyio
import anyio.to_thread

from treadle.testing.model import Request, ScriptedModel

ANSWER = "Noted. That was the answer of the scripted model, the same for every question."


async def main() -> None:
    async with ScriptedModel() as model:

        def answer(request: Request) -> str:
            seen = {"at": request.at, "bytes": len(request.raw), "items": len(request.input)}
            model.clear()
            print(json.dumps(seen), flush=True)
            return ANSWER

        model.fallback = answer
        print(model.base_url, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    anyio.run(main)
