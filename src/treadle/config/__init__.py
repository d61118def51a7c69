"""Floor 2: the settings as frozen records, one loader, the places on disk, the state directory."""

from treadle.config.codex import AppServer, CodexConfig, Permissions, ProjectionSettings
from treadle.config.deadlines import Deadlines
from treadle.config.describe import KeyRow, ValueRow, key_rows, value_rows
from treadle.config.load import ENVIRONMENT, load_settings
from treadle.config.paths import Paths, find_paths, refuse_temporary
from treadle.config.reading import Secret, nearest
from treadle.config.records import Compaction, Provider
from treadle.config.settings import MAIN, Agent, RuntimeChoice, Settings, Warned
from treadle.config.state_dir import StateDirectory, open_state_directory

__all__ = [
    "ENVIRONMENT",
    "MAIN",
    "Agent",
    "AppServer",
    "CodexConfig",
    "Compaction",
    "Deadlines",
    "KeyRow",
    "Paths",
    "Permissions",
    "ProjectionSettings",
    "Provider",
    "RuntimeChoice",
    "Secret",
    "Settings",
    "StateDirectory",
    "ValueRow",
    "Warned",
    "find_paths",
    "key_rows",
    "load_settings",
    "nearest",
    "open_state_directory",
    "refuse_temporary",
    "value_rows",
]
