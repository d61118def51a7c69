"""A damaged store, and whether a gateway leaves it as it is. Knows nothing of other faults."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio.to_thread
import apsw

from bench.reliability.world import World

REFUSED_S: Final = 60.0
"""Seconds within which a damaged store has to be refused (RS27)."""

PAGE_BYTES: Final = 4096
DAMAGE_BYTES: Final = 200

SERVED: Final = "it was served"
"""In place of the hash afterwards, where the gateway did not refuse."""


async def try_damaged(world: World, chance: Random) -> dict[str, str]:
    """Start a gateway on a damaged copy of the store; hashes of its files before and after.

    Empty where there is no copy to be had now: the store is locked, or the disk is full.
    """
    place = world.root / "damaged"
    try:
        store = await anyio.to_thread.run_sync(_damaged_copy, world, place, chance)
        if store is None:
            return {}
        before = _digest(store)
        status = await _start_on(world, place)
        return {"before": before, "after": _digest(store) if status else SERVED}
    finally:
        await anyio.to_thread.run_sync(shutil.rmtree, place)


def _damaged_copy(world: World, place: Path, chance: Random) -> Path | None:
    """Copy the store as it is and write over all pages but the first."""
    target = place / world.database.relative_to(world.state)
    target.parent.mkdir(parents=True, mode=0o700)
    source = apsw.Connection(str(world.database), flags=apsw.SQLITE_OPEN_READONLY)
    copy = apsw.Connection(str(target))
    try:
        source.set_busy_timeout(5000)
        with copy.backup("main", source, "main") as backup:
            backup.step()
    except apsw.Error:
        return None
    finally:
        copy.close()
        source.close()
    target.chmod(0o600)
    with target.open("r+b") as file:
        for page in range(1, target.stat().st_size // PAGE_BYTES):
            file.seek(page * PAGE_BYTES)
            file.write(chance.randbytes(DAMAGE_BYTES))
    return target


def _digest(path: Path) -> str:
    """Return a hash of the store's files, names included."""
    digest = hashlib.sha256()
    for file in sorted(path.parent.glob(f"{path.name}*")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


async def _start_on(world: World, state: Path) -> int:
    """Start a gateway on another state directory; its exit status, 0 if it served."""
    argv = world.argv("serve", "--socket", "--json", state=state)
    process = await anyio.open_process(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=world.environment(),
        cwd=world.work,
    )
    with anyio.move_on_after(REFUSED_S):
        return await process.wait()
    process.kill()
    await process.wait()
    return 0
