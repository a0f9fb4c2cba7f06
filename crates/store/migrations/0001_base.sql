-- Read by SQLite and PostgreSQL alike: ids and JSON are TEXT, times are BIGINT microseconds, truth is 0 or 1.

CREATE TABLE muster (
    singleton   BIGINT PRIMARY KEY CHECK (singleton = 1),
    database_id TEXT   NOT NULL,
    -- The key that signs the tokens of all APIs; never shown.
    token_key   TEXT   NOT NULL,
    version     BIGINT NOT NULL,
    min_reader  BIGINT NOT NULL
);

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE engines (
    id          TEXT PRIMARY KEY,
    host        TEXT   NOT NULL,
    version     TEXT   NOT NULL,
    instances   TEXT   NOT NULL,
    started_at  BIGINT NOT NULL,
    lease_until BIGINT NOT NULL
);

-- Single duties: the observer of an instance, the janitor.
CREATE TABLE duties (
    name      TEXT PRIMARY KEY,
    engine_id TEXT NOT NULL
);

CREATE TABLE instances (
    id        TEXT PRIMARY KEY,
    served_at BIGINT NOT NULL
);

CREATE TABLE profiles (
    id         TEXT PRIMARY KEY,
    name       TEXT   NOT NULL,
    type       TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    properties TEXT   NOT NULL,
    -- The other fields of the specification, as given.
    envelope   TEXT   NOT NULL,
    metadata   TEXT   NOT NULL,
    implicit   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT
);
CREATE INDEX profiles_by_age ON profiles (project, created_at, id);
CREATE INDEX profiles_by_name ON profiles (project, name);

CREATE TABLE policies (
    id         TEXT PRIMARY KEY,
    name       TEXT   NOT NULL,
    type       TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    data       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT
);
CREATE INDEX policies_by_age ON policies (project, created_at, id);
CREATE INDEX policies_by_name ON policies (project, name);

CREATE TABLE clusters (
    id            TEXT PRIMARY KEY,
    name          TEXT   NOT NULL,
    object_name   TEXT   NOT NULL,
    namespace     TEXT   NOT NULL,
    project       TEXT   NOT NULL,
    instance      TEXT   NOT NULL,
    owner_scheme  TEXT   NOT NULL,
    owner_id      TEXT   NOT NULL,
    owner_name    TEXT   NOT NULL,
    user_id       TEXT   NOT NULL,
    profile_id    TEXT   NOT NULL,
    profile_type  TEXT   NOT NULL,
    framework     TEXT,
    flavor        TEXT,
    has_head      BIGINT NOT NULL,
    desired       BIGINT NOT NULL,
    status        TEXT   NOT NULL,
    status_reason TEXT   NOT NULL,
    timeout       BIGINT NOT NULL,
    idle_timeout  BIGINT,
    max_lifetime  BIGINT,
    -- Written only by the watcher of these two limits.
    idle_since    BIGINT,
    idle_warned_at     BIGINT,
    lifetime_warned_at BIGINT,
    metadata      TEXT   NOT NULL,
    config        TEXT   NOT NULL,
    data          TEXT   NOT NULL,
    dependents    TEXT   NOT NULL,
    labels        TEXT   NOT NULL,
    annotations   TEXT   NOT NULL,
    spec          TEXT   NOT NULL,
    generation    BIGINT NOT NULL,
    incarnation   BIGINT NOT NULL,
    next_index    BIGINT NOT NULL,
    observed      TEXT   NOT NULL,
    fence         BIGINT NOT NULL,
    change        BIGINT NOT NULL,
    -- The number of the change that created the cluster: a watch that resumes below it has not received the cluster.
    born          BIGINT NOT NULL,
    -- Set if the API of the creation forbids a second cluster of that name; the index ignores deleted clusters.
    name_claim    TEXT,
    init_at       BIGINT NOT NULL,
    created_at    BIGINT,
    updated_at    BIGINT,
    deleted_at    BIGINT
);
CREATE UNIQUE INDEX clusters_name_claim ON clusters (name_claim) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX clusters_object ON clusters (instance, namespace, profile_type, object_name) WHERE deleted_at IS NULL;
CREATE INDEX clusters_by_place ON clusters (namespace, name, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_of_namespace_by_age ON clusters (namespace, init_at, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_by_name ON clusters (name, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_by_age ON clusters (init_at, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_of_project_by_age ON clusters (project, init_at, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_of_project_by_name ON clusters (project, name, id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_by_change ON clusters (change);
CREATE INDEX clusters_deleted ON clusters (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX clusters_by_profile ON clusters (profile_id) WHERE deleted_at IS NULL;
CREATE INDEX clusters_limited ON clusters (instance, id)
    WHERE deleted_at IS NULL AND (idle_timeout IS NOT NULL OR max_lifetime IS NOT NULL);

CREATE TABLE worker_groups (
    cluster_id TEXT   NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    name       TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    desired    BIGINT NOT NULL,
    min_size   BIGINT NOT NULL,
    max_size   BIGINT,
    shape      TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    PRIMARY KEY (cluster_id, name)
);

CREATE TABLE nodes (
    id            TEXT PRIMARY KEY,
    cluster_id    TEXT,
    group_name    TEXT,
    role          TEXT   NOT NULL,
    user_role     TEXT   NOT NULL,
    idx           BIGINT NOT NULL,
    name          TEXT   NOT NULL,
    physical_id   TEXT,
    profile_id    TEXT   NOT NULL,
    project       TEXT   NOT NULL,
    user_id       TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    status_reason TEXT   NOT NULL,
    tainted       BIGINT NOT NULL,
    data          TEXT   NOT NULL,
    metadata      TEXT   NOT NULL,
    dependents    TEXT   NOT NULL,
    incarnation   BIGINT NOT NULL,
    starts        TEXT   NOT NULL,
    init_at       BIGINT NOT NULL,
    created_at    BIGINT,
    updated_at    BIGINT,
    instance      TEXT   NOT NULL
);
CREATE INDEX nodes_of_cluster ON nodes (cluster_id, idx, id);
CREATE INDEX nodes_by_profile ON nodes (profile_id);
CREATE INDEX nodes_orphaned ON nodes (project, init_at, id) WHERE cluster_id IS NULL;
CREATE INDEX orphans_of_instance ON nodes (instance, id) WHERE cluster_id IS NULL;

CREATE TABLE bindings (
    id         TEXT PRIMARY KEY,
    cluster_id TEXT   NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    policy_id  TEXT   NOT NULL REFERENCES policies (id),
    enabled    BIGINT NOT NULL,
    priority   BIGINT NOT NULL,
    data       TEXT   NOT NULL,
    last_op    BIGINT,
    UNIQUE (cluster_id, policy_id)
);
CREATE INDEX bindings_by_policy ON bindings (policy_id);

CREATE TABLE receivers (
    id         TEXT PRIMARY KEY,
    name       TEXT   NOT NULL,
    type       TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    principal  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    cluster_id TEXT   NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    action     TEXT   NOT NULL,
    actor      TEXT   NOT NULL,
    params     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT
);
CREATE INDEX receivers_of_cluster ON receivers (cluster_id);
CREATE INDEX receivers_by_name ON receivers (project, name, id);

CREATE TABLE actions (
    id             TEXT PRIMARY KEY,
    kind           TEXT   NOT NULL,
    version        BIGINT NOT NULL,
    target_kind    TEXT   NOT NULL,
    target         TEXT   NOT NULL,
    cluster_id     TEXT,
    instance       TEXT   NOT NULL,
    parent_id      TEXT,
    cause          TEXT   NOT NULL,
    door           TEXT   NOT NULL,
    reason         TEXT   NOT NULL,
    principal      TEXT   NOT NULL,
    project        TEXT   NOT NULL,
    user_id        TEXT   NOT NULL,
    priority       BIGINT NOT NULL,
    inputs         TEXT   NOT NULL,
    outputs        TEXT   NOT NULL,
    data           TEXT   NOT NULL,
    status         TEXT   NOT NULL,
    status_reason  TEXT   NOT NULL,
    control        TEXT,
    owner          TEXT,
    fence          BIGINT NOT NULL,
    tries          BIGINT NOT NULL,
    not_before     BIGINT,
    timeout        BIGINT NOT NULL,
    suspended_for  BIGINT NOT NULL,
    suspended_at   BIGINT,
    created_at     BIGINT NOT NULL,
    started_at     BIGINT,
    applied_at     BIGINT,
    ended_at       BIGINT,
    updated_at     BIGINT NOT NULL
);
CREATE INDEX actions_open ON actions (status, priority, created_at, id)
    WHERE status IN ('READY', 'RUNNING', 'WAITING', 'SUSPENDED', 'INIT', 'WAITING_LIFECYCLE_COMPLETION') AND parent_id IS NULL;
CREATE INDEX actions_running ON actions (owner) WHERE status = 'RUNNING' AND parent_id IS NULL;
CREATE INDEX actions_of_cluster ON actions (cluster_id, created_at, id);
CREATE INDEX actions_of_parent ON actions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX actions_told ON actions (parent_id) WHERE control IS NOT NULL;
CREATE INDEX actions_of_target ON actions (target, created_at, id) WHERE parent_id IS NULL;
CREATE INDEX actions_of_project ON actions (project, created_at, id);
CREATE INDEX actions_ended ON actions (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE dependencies (
    action_id  TEXT NOT NULL,
    depends_on TEXT NOT NULL,
    PRIMARY KEY (action_id, depends_on)
);
CREATE INDEX dependencies_reversed ON dependencies (depends_on);

-- A lock of a cluster or node belongs to an action, never to an engine, so a dead engine leaves no lock.
CREATE TABLE locks (
    target    TEXT   NOT NULL,
    action_id TEXT   NOT NULL,
    exclusive BIGINT NOT NULL,
    PRIMARY KEY (target, action_id)
);
CREATE INDEX locks_of_action ON locks (action_id);

CREATE TABLE events (
    id          TEXT PRIMARY KEY,
    at          BIGINT NOT NULL,
    level       TEXT   NOT NULL,
    object_kind TEXT   NOT NULL,
    object_id   TEXT   NOT NULL,
    object_name TEXT   NOT NULL,
    cluster_id  TEXT,
    action_id   TEXT,
    reason      TEXT   NOT NULL,
    phase       TEXT   NOT NULL,
    message     TEXT   NOT NULL,
    user_id     TEXT   NOT NULL,
    project     TEXT   NOT NULL,
    door        TEXT   NOT NULL,
    data        TEXT   NOT NULL
);
CREATE INDEX events_of_cluster ON events (cluster_id, at, id);
CREATE INDEX events_of_project ON events (project, at, id);
CREATE INDEX events_by_age ON events (at, id);

CREATE TABLE idempotency (
    principal  TEXT   NOT NULL,
    request_id TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    action_id  TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (principal, request_id)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
