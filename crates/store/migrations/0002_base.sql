-- The number of engines in a row that died while they ran the action, before they committed a change of it.
ALTER TABLE actions ADD COLUMN deaths BIGINT NOT NULL DEFAULT 0;
