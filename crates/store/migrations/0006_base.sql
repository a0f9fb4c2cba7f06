-- Durable work that does not change a cluster. Its log is read separately.
CREATE TABLE tasks (
    id            TEXT PRIMARY KEY,
    kind          TEXT   NOT NULL,
    instance      TEXT   NOT NULL,
    project       TEXT   NOT NULL,
    inputs        TEXT   NOT NULL,
    outputs       TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    status_reason TEXT   NOT NULL,
    owner         TEXT,
    fence         BIGINT NOT NULL,
    tries         BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    started_at    BIGINT,
    ended_at      BIGINT,
    not_before    BIGINT,
    cancelled     BIGINT NOT NULL,
    log           TEXT   NOT NULL
);
CREATE INDEX tasks_open ON tasks (instance, created_at, id) WHERE ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- Actions that are not claimed before tasks have ended.
CREATE TABLE task_waits (
    action_id TEXT NOT NULL,
    task_id   TEXT NOT NULL,
    PRIMARY KEY (action_id, task_id)
);
CREATE INDEX task_waits_of_task ON task_waits (task_id);

CREATE TABLE image_templates (
    id         TEXT PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    instance   TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    image      TEXT   NOT NULL,
    task_id    TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX image_templates_named ON image_templates (namespace, name);
CREATE INDEX image_templates_by_name ON image_templates (project, name, id);
CREATE INDEX image_templates_of_task ON image_templates (task_id);
