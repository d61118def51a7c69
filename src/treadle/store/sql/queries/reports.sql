-- report_number: Find the number of a run's report.
SELECT number FROM context_reports WHERE session_id = :session_id AND run_id = :run_id;

-- next_report_number: Choose the number of a generation's next report.
SELECT coalesce(max(number), 0) + 1 FROM context_reports WHERE session_id = :session_id;

-- report_of_number: Read the report of one turn.
SELECT run_id, number, created_at, report FROM context_reports
WHERE session_id = :session_id AND number = :number;

-- last_report: Read a generation's last report.
SELECT run_id, number, created_at, report FROM context_reports
WHERE session_id = :session_id ORDER BY number DESC LIMIT 1;

-- add_report: Store a report.
INSERT INTO context_reports (session_id, number, run_id, created_at, report)
VALUES (:session_id, :number, :run_id, :created_at, :report);

-- drop_report: Make room for the new report of a run.
DELETE FROM context_reports WHERE session_id = :session_id AND run_id = :run_id;
