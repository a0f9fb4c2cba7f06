-- The numbers of changes of clusters. They replace transaction ids, which begin low again on another server.
--
-- The sequence starts a million above all issued positions: servers of the previous version may run until their next
-- heartbeat, and return transaction ids as positions until then.
CREATE SEQUENCE changes;
SELECT setval('changes', 1000000 + greatest(
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    (SELECT max(greatest(change, born)) FROM clusters),
    (SELECT value FROM counters WHERE name = 'forgotten')));
