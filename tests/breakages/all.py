"""All changes of the source that a test has to notice, by area of the contract."""

from __future__ import annotations

from tests.breakages.breakage import Breakage
from tests.breakages.children import CHILDREN
from tests.breakages.durable import DURABLE
from tests.breakages.engine import ENGINE
from tests.breakages.lives import LIVES
from tests.breakages.projection import PROJECTION
from tests.breakages.surroundings import SURROUNDINGS
from tests.breakages.turn import TURN

BREAKAGES: tuple[Breakage, ...] = (
    *SURROUNDINGS,
    *CHILDREN,
    *DURABLE,
    *ENGINE,
    *LIVES,
    *PROJECTION,
    *TURN,
)
