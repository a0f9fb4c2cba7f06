-- For SQLite only: one process writes, so rows can be the counters.
INSERT INTO counters (name, value) VALUES ('fence', 0), ('change', 0);
