-- For real Postgres only; run with every migration, harmless when repeated.
-- A queue turns its whole content over many times an hour: the default of vacuuming once a fifth of the table has
-- changed is far too late for a table whose size is the backlog. A fixed number of dead rows keeps table and indexes small.
-- The short pauses are for when an open transaction keeps it from removing any: then it reads the growing table again and
-- again, and must not take a core for that.
-- Rows are not updated in place (their state is in every index), so there is nothing to gain from a fillfactor.
-- No statement's plan depends on statistics: it is made for an index. Taking them every few seconds, of a queue that is another
-- one by then, cost more than a tenth of the database's CPU, and each time every connection planned its statements anew.
-- Bodies stay in their rows as long as two rows fit on a page: out of line, one of 2.5 KB is two more rows and index entries.
ALTER TABLE rollcall.delivery SET (
  toast_tuple_target = 4080,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 200,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000000
);
-- Counters are updated in place for ever: room on the page lets Postgres do that without touching the index.
ALTER TABLE rollcall.backlog SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE rollcall.run_progress SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE rollcall.owner SET (fillfactor = 50);
ALTER TABLE rollcall.lease SET (fillfactor = 50);
-- Grow at one end and are pruned at the other: a twentieth is a vacuum every few hours at most. While they are small, a tenth
-- more would be a reason to take statistics every few seconds; only what was delivered is looked for in ways that need them.
ALTER TABLE rollcall.seen SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE rollcall.seen_batch SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE rollcall.attempt SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE rollcall.delivered SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
