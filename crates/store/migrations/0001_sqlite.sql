-- What only SQLite has: one process writes, so rows may count.
INSERT INTO counters (name, value) VALUES ('fence', 0), ('change', 0);
