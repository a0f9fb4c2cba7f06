-- The statements for PostgreSQL only.

-- A sequence instead of a row, for which all claims of all replicas would wait.
CREATE SEQUENCE fences;

-- Names are compared byte by byte, whatever the database's own order is.
ALTER TABLE clusters ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE clusters ALTER COLUMN namespace TYPE TEXT COLLATE "C";
ALTER TABLE clusters ALTER COLUMN status TYPE TEXT COLLATE "C";
ALTER TABLE clusters ALTER COLUMN framework TYPE TEXT COLLATE "C";
ALTER TABLE nodes ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE nodes ALTER COLUMN status TYPE TEXT COLLATE "C";
ALTER TABLE profiles ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE policies ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE actions ALTER COLUMN kind TYPE TEXT COLLATE "C";
ALTER TABLE actions ALTER COLUMN status TYPE TEXT COLLATE "C";
ALTER TABLE events ALTER COLUMN reason TYPE TEXT COLLATE "C";
