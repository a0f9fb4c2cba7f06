-- Lists of one owner's clusters, in the order of their names.
CREATE INDEX clusters_of_owner ON clusters (owner_scheme, owner_id, name, id) WHERE deleted_at IS NULL;

-- Objects of two flavors may have the same name.
DROP INDEX clusters_object;
CREATE UNIQUE INDEX clusters_object ON clusters (instance, namespace, profile_type, object_name)
    WHERE deleted_at IS NULL AND flavor IS NULL;
CREATE UNIQUE INDEX clusters_object_of_flavor ON clusters (instance, namespace, profile_type, flavor, object_name)
    WHERE deleted_at IS NULL AND flavor IS NOT NULL;
