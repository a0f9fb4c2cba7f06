-- Root objects of clusters on Kubernetes as APIs show them, as last observed; only of flavors that an API shows.
CREATE TABLE cluster_objects (
    cluster_id TEXT PRIMARY KEY,
    managed_by TEXT,
    body       TEXT NOT NULL
);
