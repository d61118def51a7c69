-- record_migration: Note a migration that was applied.
INSERT INTO migrations (number, phase, name, applied_at) VALUES (:number, :phase, :name, :now);
