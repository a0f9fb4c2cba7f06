-- How many engines in a row died while they ran the action, without a commit of it.
ALTER TABLE actions ADD COLUMN deaths BIGINT NOT NULL DEFAULT 0;
