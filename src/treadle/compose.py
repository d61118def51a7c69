"""Put a Treadle together.

The only module that names concrete classes, opened in order and closed in reverse.

Knows nothing of what the parts do. Source: architecture section 2, rule 3; reliability INV-4,
INV-23.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio.to_thread

from treadle.clock import Clock, Ids, RandomIds, SystemClock
from treadle.config import (
    Deadlines,
    Paths,
    Settings,
    find_paths,
    load_settings,
    open_state_directory,
)
from treadle.config.state_dir import OwnerRole
from treadle.contract.engine import EngineFactory
from treadle.contract.hook import HookRegistration
from treadle.contract.tool import DynamicTool
from treadle.engines.registry import EngineRegistry
from treadle.foreign import ForeignCalls
from treadle.gateway.attach import Owned
from treadle.gateway.server import Identity, Role, open_gateway
from treadle.harness.codex.attempt import CodexHarness
from treadle.harness.codex.launch import ProviderLaunch, provider_launch
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.signin import SignInCheck
from treadle.harness.codex.thread import Threads
from treadle.hooks.inprocess import InProcessHooks
from treadle.model.errors import TreadleError
from treadle.model.ids import AgentId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import Redactor
from treadle.observe import Counters, Level, emit, open_log
from treadle.offline.server import MODEL as OFFLINE_MODEL
from treadle.offline.server import OfflineModel
from treadle.queue.lanes import Lanes
from treadle.runtime.accounts import Accounts
from treadle.runtime.choosing import Choosing
from treadle.runtime.runs import RunServices
from treadle.runtime.service import Runtime
from treadle.store.open import SqliteStore, open_store
from treadle.tokens import open_counter
from treadle.tools.builtin import memory_search
from treadle.tools.call import ToolCaller
from treadle.tools.catalog import Catalog
from treadle.watchdog import LoopWatchdog
from treadle.wire.binary import BinaryVerifier
from treadle.wire.children.registered import ChildLimits, RegisteredChildren
from treadle.wire.children.stopping import StopLimits
from treadle.wire.client import ClientSettings, CodexClient, open_client
from treadle.wire.environment import child_environment
from treadle.wire.launch import MARKER, OFFLINE_CONFIG, LaunchKey, codex_argv, launch_key
from treadle.wire.pool import open_pool, prepare_home
from treadle.wire.process import Link, Spawn, StopGrace

OFFLINE_PROVIDER: Final = "offline"
"""Id of the offline model among the providers."""

OpenLinkTo = Callable[[LaunchKey], AbstractAsyncContextManager[Link]]
"""Opens the line to the app-server of a key; what is sent over it is the client's business."""

_CALLER: Final = "caller"
"""Owner of the engines that a caller of `open_runtime` brings along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What `open_runtime` was asked for, resolved."""

    settings: Settings
    paths: Paths
    environ: Mapping[str, str]
    clock: Clock
    ids: Ids


@asynccontextmanager
async def open_runtime(
    *,
    settings: Settings | None = None,
    paths: Paths | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[tuple[str, ...], JsonValue] | None = None,
    state_dir: str | Path | None = None,
    offline: bool = False,
    engines: Mapping[str, EngineFactory] | None = None,
    tools: Sequence[DynamicTool] = (),
    hooks: Sequence[HookRegistration] = (),
    stderr_level: Level | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    open_link: OpenLinkTo | None = None,
    role: OwnerRole = "library",
    resume: bool = True,
) -> AsyncIterator[Runtime]:
    """Open Treadle and give its runtime; everything is closed again at the end, in reverse order.

    Settings come from the file and the environment unless they are given; `overrides` go over them.
    `offline` runs everything on a built-in model that needs no key and no network. `engines`,
    `tools` and `hooks` are the caller's own. The app-server is started by the first run that needs
    it, as the verified binary, unless `open_link` opens another one. `role` is what others read of
    the owner of the state directory. `resume` takes up the messages that an earlier process
    accepted and did not bring to an end; without it those of a session wait for the next one of
    that session, and go before it.

    Raises: ConfigError with every fault, StateDirectoryRefused when the state directory is unsafe
    or another process owns it, StoreError. Cancel: as at the end; running turns are interrupted.
    """
    env = dict(os.environ if environ is None else environ)
    places = paths or find_paths(env, state=Path(state_dir) if state_dir else None)
    chosen = settings
    if chosen is None:
        chosen = await anyio.to_thread.run_sync(partial(load_settings, places, env, overrides))
    now = clock or SystemClock()
    opening = Opening(
        settings=chosen,
        paths=places,
        environ=env,
        clock=now,
        ids=ids or RandomIds(now),
    )
    async with AsyncExitStack() as stack:
        store = await _open_state(stack, opening, stderr_level, role)
        foreign = await stack.enter_async_context(ForeignCalls(emit))
        await stack.enter_async_context(LoopWatchdog(emit))
        registry = await _registry(opening, foreign, engines or {})
        providers = _providers(chosen)
        builtin: frozenset[str] = frozenset()
        if offline:
            model = await stack.enter_async_context(OfflineModel())
            emit("offline.started")
            providers[OFFLINE_PROVIDER] = ProviderLaunch(
                id=OFFLINE_PROVIDER,
                base_url=model.base_url,
                request_max_retries=1,
                stream_max_retries=1,
            )
            builtin = frozenset({OFFLINE_PROVIDER})
        key_of = await _launch_keys(opening, offline=offline)
        counters = Counters()
        children = _children(opening, store)
        await children.tidy()  # what an earlier owner left must be gone before anything is sent
        open_to = open_link or partial(_open_child, opening, _verifier(opening), children)
        connect = partial(_connect, chosen.deadlines, open_to, counters)
        pool = await stack.enter_async_context(open_pool(connect, random.random))
        services = CodexServices(
            settings=chosen,
            paths=places,
            store=store,
            pool=pool,
            sign_in=SignInCheck(),
            threads=Threads(store.bindings, opening.ids, chosen.deadlines, recover=children.tidy),
            catalog=Catalog(
                (memory_search.create(store), *tools),
                exclude=chosen.codex.codex_dynamic_tools_exclude,
            ),
            tools=ToolCaller(foreign, default_s=chosen.deadlines.tool_call_s),
            hooks=InProcessHooks(foreign, hooks, timeout_s=chosen.hooks.timeout_s),
            counter=open_counter(),
            clock=now,
            ids=opening.ids,
            launch_key=key_of,
            providers=providers,
            builtin_providers=builtin,
        )
        harnesses = {"codex": CodexHarness(services)}
        runs = RunServices(
            settings=chosen,
            paths=places,
            store=store,
            registry=registry,
            harnesses=harnesses,
            lanes=Lanes(chosen.lanes.limit("main", os.cpu_count() or 1)),
            clock=now,
            ids=opening.ids,
            choosing=Choosing(
                settings=chosen,
                paths=places,
                registry=registry,
                harnesses=harnesses,
                default_model=f"{OFFLINE_PROVIDER}/{OFFLINE_MODEL}" if offline else None,
                engine_configs=_engine_configs(chosen),
            ),
        )
        accounts = Accounts(pool, key_of, chosen.deadlines)
        runtime = Runtime(runs, accounts, foreign, resumes=resume)
        yield await stack.enter_async_context(runtime)


@asynccontextmanager
async def open_owned(
    *,
    paths: Paths,
    environ: Mapping[str, str],
    role: Role = "command",
    accepts: bool = True,
    offline: bool = False,
    stderr_level: Level | None = None,
    open_link: OpenLinkTo | None = None,
) -> AsyncIterator[Owned]:
    """Open a runtime and the gateway that lets other processes in, for the program's commands.

    One that does not accept messages answers questions only. Raises: as `open_runtime`.
    """
    clock = SystemClock()
    identity = Identity(
        version=await anyio.to_thread.run_sync(version, "treadle"),
        role=role,
        state_dir=paths.state,
        config_file=paths.config_file,
        offline=offline,
        started_at=clock.now(),
    )
    async with (
        open_runtime(
            paths=paths,
            environ=environ,
            offline=offline,
            stderr_level=stderr_level,
            clock=clock,
            open_link=open_link,
            role=role,
            resume=role == "serve",  # others end soon: they take up those of their own session
        ) as runtime,
        open_gateway(runtime, identity, clock, is_accepting=accepts) as gateway,
    ):
        yield Owned(runtime=runtime, gateway=gateway)


async def _open_state(
    stack: AsyncExitStack, opening: Opening, stderr_level: Level | None, role: OwnerRole
) -> SqliteStore:
    """Take the state directory, then open log and store in it."""
    settings, paths = opening.settings, opening.paths
    owned = open_state_directory(paths.state, role=role)
    state = await anyio.to_thread.run_sync(owned.__enter__)
    stack.push_async_callback(anyio.to_thread.run_sync, owned.__exit__, None, None, None)
    log = open_log(
        paths.logs,
        level=Level[settings.log.level.upper()],
        redactor=Redactor(settings.secrets()),
        stderr_level=stderr_level,
        max_bytes=settings.log.max_bytes,
        keep_count=settings.log.keep_count,
    )
    await anyio.to_thread.run_sync(log.__enter__)
    stack.push_async_callback(anyio.to_thread.run_sync, log.__exit__, None, None, None)
    for warned in settings.warnings:
        emit("config.warned", reason=str(warned))
    store = await stack.enter_async_context(
        open_store(
            paths.database,
            clock=opening.clock,
            ids=opening.ids,
            synchronous="FULL" if settings.store.synchronous == "full" else "NORMAL",
        )
    )
    if not state.same_boot:
        await store.events.renew()  # a power cut may have undone events that a client has seen
    return store


async def _registry(
    opening: Opening, foreign: ForeignCalls, own: Mapping[str, EngineFactory]
) -> EngineRegistry:
    registry = EngineRegistry(
        foreign,
        opening.settings.deadlines,
        opening.clock,
        disabled_owners=[
            name
            for name, entry in opening.settings.plugins.entries.others.items()
            if not entry.enabled
        ],
    )
    await anyio.to_thread.run_sync(registry.discover)  # reads every package's metadata
    for engine_id, factory in own.items():
        registry.register(engine_id, factory, owner=_CALLER)
    return registry


def _engine_configs(settings: Settings) -> dict[str, JsonObject]:
    return {
        name: entry.config
        for name, entry in settings.plugins.entries.others.items()
        if isinstance(entry.config, Mapping)
    }


def _providers(settings: Settings) -> dict[str, ProviderLaunch]:
    found = {
        provider_id: provider_launch(provider_id, provider)
        for provider_id, provider in settings.models.providers.items()
    }
    return {provider_id: launch for provider_id, launch in found.items() if launch is not None}


def _children(opening: Opening, store: SqliteStore) -> RegisteredChildren:
    deadlines = opening.settings.deadlines
    limits = ChildLimits(
        check_s=deadlines.child_start_s,
        stop=StopLimits(term_s=deadlines.stop_term_s, kill_s=deadlines.stop_kill_s),
    )
    return RegisteredChildren(store.children, opening.ids, limits)


def _verifier(opening: Opening) -> BinaryVerifier:
    server = opening.settings.codex.app_server
    return BinaryVerifier(
        explicit=None if server.command == "codex" else server.command,
        environment=opening.environ,
        expected_sha256=server.sha256,
    )


async def _launch_keys(opening: Opening, *, offline: bool) -> Callable[[AgentId], LaunchKey]:
    """Find every agent's key, which looks at folders; one that is refused is so when asked for."""

    def find(agent_id: AgentId) -> LaunchKey | TreadleError:
        try:
            return _launch_key(opening, agent_id, offline=offline)
        except TreadleError as refused:
            return refused

    agents = opening.settings.agent_ids()
    found = await anyio.to_thread.run_sync(lambda: {one: find(one) for one in agents})

    def key_of(agent_id: AgentId) -> LaunchKey:
        opening.settings.agent(agent_id)  # one that is not there is said to be
        key = found[agent_id]
        if isinstance(key, TreadleError):
            raise key
        return key

    return key_of


def _launch_key(opening: Opening, agent_id: AgentId, *, offline: bool) -> LaunchKey:
    """Return which app-server serves an agent: its home, what it is told, what it may see."""
    settings = opening.settings
    server = settings.codex.app_server
    if server.transport != "stdio":
        raise TreadleError(
            f"appServer.transport {server.transport!r} is not part of this version",
            next_step="Remove the key, or set it to 'stdio'.",
        )
    agent = settings.agent(agent_id)
    home = opening.paths.codex_home(agent_id, agent.home_scope, opening.environ)
    return launch_key(home, OFFLINE_CONFIG if offline else {}, dict(server.env))


def _model_keys(opening: Opening) -> dict[str, str]:
    """Return the variables that hold the keys of configured providers, as far as they are set."""
    providers = opening.settings.models.providers.values()
    names = {one.api_key_env for one in providers if one.api_key_env is not None}
    return {name: opening.environ[name] for name in sorted(names & set(opening.environ))}


@asynccontextmanager
async def _open_child(
    opening: Opening, verifier: BinaryVerifier, children: RegisteredChildren, key: LaunchKey
) -> AsyncIterator[Link]:
    """Start an app-server for a key: verified binary, private home, own environment, registered."""
    binary = await verifier.verified()
    await prepare_home(key.home)
    server = opening.settings.codex.app_server
    environment = child_environment(
        opening.environ,
        {**dict(key.environment), "CODEX_HOME": str(key.home)},
        model_keys=_model_keys(opening),
    )
    for name in server.clear_env:
        if name not in {"CODEX_HOME", "HOME"}:
            environment.pop(name, None)

    def marked(marker: str) -> Spawn:
        argv = codex_argv(binary.path, key, marker=marker)
        return Spawn(argv=argv, environment={**environment, MARKER: marker})

    grace = _grace(opening.settings.deadlines)
    async with children.open(marked, home=key.home, grace=grace) as child:
        yield child


@asynccontextmanager
async def _connect(
    deadlines: Deadlines, open_link: OpenLinkTo, counters: Counters, key: LaunchKey
) -> AsyncIterator[CodexClient]:
    """Connect to the app-server of a key."""
    settings = ClientSettings(
        client_version=await anyio.to_thread.run_sync(version, "treadle"),
        start_s=deadlines.initialize_s,
        request_s=deadlines.request_s,
        write_s=deadlines.write_s,
        stop=_grace(deadlines),
    )
    async with open_client(partial(open_link, key), settings, counters=counters) as client:
        yield client


def _grace(deadlines: Deadlines) -> StopGrace:
    return StopGrace(
        eof_s=deadlines.stop_eof_s, term_s=deadlines.stop_term_s, kill_s=deadlines.stop_kill_s
    )
