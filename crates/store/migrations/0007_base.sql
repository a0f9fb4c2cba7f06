-- Lists of one owner's clusters, in the order of their names.
CREATE INDEX clusters_of_owner ON clusters (owner_scheme, owner_id, name, id) WHERE deleted_at IS NULL;
