"""Context reports of turns, numbered within a session generation.

Knows nothing of what a report says.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.contract.store import ContextReport, ReportStore
from treadle.model.errors import RevisionConflict
from treadle.model.ids import RunId, SessionId
from treadle.store.claims import check_generation
from treadle.store.driver import Connection, Driver
from treadle.store.rows import decoded_object, encoded


class SqlReports(ReportStore):
    """`ReportStore` over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def save(self, report: ContextReport) -> ContextReport:
        """See `ReportStore`; number 0 keeps the number of the report that it replaces.

        Raises: NotFound; RevisionConflict if the number is that of another run.
        """
        text = encoded(report.report)

        def store(connection: Connection) -> ContextReport:
            check_generation(connection, report.session_id)
            saved = replace(report, number=report.number or _number_for(connection, report))
            connection.run("drop_report", session_id=saved.session_id, run_id=saved.run_id)
            if _taken(connection, saved):
                raise RevisionConflict(
                    f"turn {saved.number} of session {saved.session_id!r} is of another run",
                    session_id=saved.session_id,
                    number=saved.number,
                )
            connection.run(
                "add_report",
                session_id=saved.session_id,
                number=saved.number,
                run_id=saved.run_id,
                created_at=saved.created_at,
                report=text,
            )
            return saved

        # Telemetry (reliability, section 1): the turn itself is durable by now.
        return await self._driver.write(store, durable=False)

    async def get(self, session_id: SessionId, number: int | None = None) -> ContextReport | None:
        """See `ReportStore`."""

        def find(connection: Connection) -> ContextReport | None:
            if number is None:
                row = connection.one("last_report", session_id=session_id)
            else:
                row = connection.one("report_of_number", session_id=session_id, number=number)
            if row is None:
                return None
            return ContextReport(
                run_id=RunId(row[0]),
                session_id=session_id,
                number=row[1],
                created_at=row[2],
                report=decoded_object(row[3]),
            )

        return await self._driver.read(find)


def _number_for(connection: Connection, report: ContextReport) -> int:
    ids = {"session_id": report.session_id}
    row = connection.one("report_number", run_id=report.run_id, **ids)
    row = row or connection.one("next_report_number", **ids)
    return 1 if row is None else int(row[0])


def _taken(connection: Connection, report: ContextReport) -> bool:
    ids = {"session_id": report.session_id}
    return connection.one("report_of_number", number=report.number, **ids) is not None
