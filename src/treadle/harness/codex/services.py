"""What the Codex harness is built from; `compose` fills it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.config.settings import Settings
from treadle.contract.hook import Hooks
from treadle.contract.store import Store
from treadle.harness.codex.launch import ProviderLaunch
from treadle.harness.codex.signin import SignInCheck
from treadle.harness.codex.thread import Threads
from treadle.model.ids import AgentId
from treadle.tokens import Counter
from treadle.tools.call import ToolCaller
from treadle.tools.catalog import Catalog
from treadle.wire.launch import LaunchKey
from treadle.wire.pool import ClientPool


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexServices:
    """Parts that live as long as the service."""

    settings: Settings
    paths: Paths
    store: Store
    pool: ClientPool
    threads: Threads
    sign_in: SignInCheck
    catalog: Catalog
    tools: ToolCaller
    hooks: Hooks
    counter: Counter
    clock: Clock
    ids: Ids
    launch_key: Callable[[AgentId], LaunchKey]
    """Which app-server serves an agent: its home and launch settings."""

    providers: Mapping[str, ProviderLaunch] = field(default_factory=dict)
    """Providers that Codex has to be told of, by id: the configured ones and our own."""

    builtin_providers: frozenset[str] = frozenset()
    """Those of them that are ours, such as the offline model: any `auto` run may use them."""
