-- Commands that use a cluster, each with the task that runs it.
CREATE TABLE jobs (
    id           TEXT PRIMARY KEY,
    namespace    TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    project      TEXT   NOT NULL,
    owner_scheme TEXT   NOT NULL,
    owner_id     TEXT   NOT NULL,
    owner_name   TEXT   NOT NULL,
    instance     TEXT   NOT NULL,
    cluster_id   TEXT   NOT NULL,
    cluster_name TEXT   NOT NULL,
    owns_cluster BIGINT NOT NULL,
    spec         TEXT   NOT NULL,
    stopped_by   TEXT,
    task_id      TEXT   NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX jobs_named ON jobs (namespace, name);
CREATE INDEX jobs_by_age ON jobs (project, created_at, id);
CREATE INDEX jobs_of_cluster ON jobs (cluster_id);
CREATE INDEX jobs_of_task ON jobs (task_id);
