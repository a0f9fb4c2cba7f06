-- Shapes that have a name in a namespace. The id is both: `namespace/name`.
CREATE TABLE compute_templates (
    id         TEXT PRIMARY KEY,
    namespace  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    instance   TEXT,
    uid        TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX compute_templates_by_name ON compute_templates (project, name, id);
CREATE INDEX compute_templates_of_instance ON compute_templates (instance) WHERE instance IS NOT NULL;
