-- Workloads that use clusters. `marks_*` are versions of the marks of Kubernetes objects: desired and last written.
CREATE TABLE apps (
    id            TEXT PRIMARY KEY,
    instance      TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    kind          TEXT   NOT NULL,
    uid           TEXT   NOT NULL,
    project       TEXT   NOT NULL,
    owner_scheme  TEXT   NOT NULL,
    owner_id      TEXT   NOT NULL,
    owner_name    TEXT   NOT NULL,
    process       TEXT,
    lease_until   BIGINT,
    cluster_name  TEXT   NOT NULL,
    cluster_id    TEXT,
    state         TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    marks_wanted  BIGINT NOT NULL,
    marks_written BIGINT NOT NULL
);
CREATE UNIQUE INDEX apps_identity ON apps (instance, uid);
CREATE INDEX apps_named ON apps (namespace, name);
CREATE INDEX apps_by_name ON apps (project, name, id);
CREATE INDEX apps_of_cluster ON apps (cluster_id) WHERE cluster_id IS NOT NULL;
CREATE INDEX apps_unmarked ON apps (instance) WHERE marks_wanted <> marks_written;
CREATE INDEX apps_ended ON apps (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE app_uses (
    app_id     TEXT   NOT NULL,
    cluster_id TEXT   NOT NULL,
    ephemeral  BIGINT NOT NULL,
    since      BIGINT NOT NULL,
    PRIMARY KEY (app_id, cluster_id)
);
CREATE INDEX app_uses_of_cluster ON app_uses (cluster_id);

-- The app with which a cluster ends.
ALTER TABLE clusters ADD COLUMN ephemeral TEXT;
CREATE INDEX clusters_ephemeral ON clusters (instance, id) WHERE deleted_at IS NULL AND ephemeral IS NOT NULL;
