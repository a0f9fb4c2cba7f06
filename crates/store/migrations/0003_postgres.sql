-- Numbers changes of clusters, in place of transaction ids, which begin low again on another server.
--
-- It starts above all that were given out, and a million higher: servers of the version before may still run for the few
-- seconds until their next heartbeat, and the positions that they give out meanwhile are transaction ids.
CREATE SEQUENCE changes;
SELECT setval('changes', 1000000 + greatest(
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    (SELECT max(greatest(change, born)) FROM clusters),
    (SELECT value FROM counters WHERE name = 'forgotten')));
