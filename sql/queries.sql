-- queries: the named statements that compute nothing: looking up, putting, emptying, appending.
-- Each is run by its name from Python: run_sql(con, "get_run"). Those that compute are files of their own in steps/.

-- append: rows that come from Python (registered as `incoming`) into one table, column by column of the same name.
INSERT INTO {table} BY NAME SELECT * FROM incoming;

-- ---- Facts and what is there

-- get_run: all facts about the run -> key, value; by key.
SELECT key, value FROM run ORDER BY key;

-- put_facts: set facts about the run (table run) or a training (table facts), each by its key.
INSERT OR REPLACE INTO {fact_table} SELECT unnest(getvariable('keys')), unnest(getvariable('texts'));

-- get_facts: all facts about a training -> key, value; by key.
SELECT key, value FROM facts ORDER BY key;

-- list_stretches: the stretches of inputs that the tables hold -> the columns of table sources.
SELECT * REPLACE (coalesce(group_name, '') AS group_name, coalesce(bad_lines, 0) AS bad_lines) FROM sources;

-- make_no_counts: an empty table of counts, for when those in the tables are not what the parts hold.
CREATE TABLE IF NOT EXISTS no_counts (chunk VARCHAR, n BIGINT);

-- get_database: what DuckDB calls the database that the connection was opened with -> name.
SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'private';

-- get_bounds: the memory that the database may take, and its file -> as "70.5 MiB"; the path, nothing in memory; both
--         paths joined by "or" while the database of superwords is attached.
SELECT current_setting('memory_limit'), string_agg(path, ' or ' ORDER BY database_name)
FROM duckdb_databases() WHERE NOT internal AND database_name <> 'private';

-- get_threads: how many threads the database works with -> one BIGINT.
SELECT current_setting('threads');

-- list_trainings: the schemas that hold a training -> name, in order.
SELECT schema_name
FROM duckdb_tables()
WHERE table_name = 'facts' AND NOT temporary AND database_name <> 'private'
ORDER BY schema_name;

-- get_source_groups: what was counted in each group of sources
-- -> group_name, documents, bytes, chunks, sha256; by name.
SELECT group_name, documents, bytes, chunks, sha256 FROM source_groups ORDER BY group_name;

-- count_folded: how far the tables of a training have come -> events, batches, tokens, vetoed: rows of each.
SELECT
    (SELECT count(seq) FROM events),
    (SELECT count(*) FROM batches),
    (SELECT count(*) FROM tokens),
    (SELECT count(*) FROM vetoed);

-- read_range: the rows of a table or view of chunks from one chunk on to before another (NULL: to the end) -> chunk, n;
-- in the order of the chunks' bytes.
SELECT chunk, n
FROM {table}
WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
ORDER BY chunk;

-- read_group_range: the counts of every group, of a range of chunks as in read_range -> chunk, group_name, n; in the order of
-- the chunks' bytes.
SELECT chunk, group_name, n
FROM group_counts
WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
ORDER BY chunk, group_name;

-- read_as_they_lie: all rows of a table or view of chunks -> chunk, n; as they lie in the file, which is the order of the
-- chunks' bytes unless somebody put in rows by hand.
SELECT chunk, n FROM {table};

-- has_chunk_counts: whether anything is counted in the table -> one BOOLEAN.
SELECT EXISTS (FROM chunk_counts);

-- fill_stop_words: the stop words among the tokens into their table, once.
INSERT INTO stop_words
SELECT id, decode(bytes) FROM tokens WHERE kind = 'stop word' AND id NOT IN (SELECT id FROM stop_words);

-- has_weighted_counts: whether the training's weighted counts are in their table -> one BOOLEAN.
SELECT EXISTS (FROM weighted_counts);

-- ---- What a training left

-- get_batches: the passes of a training -> the columns of batches, in the order they have in the schema; by batch.
SELECT
    batch, first_seq, events, seconds, mode, candidates, occurrences, executed, positions,
    rounds, stopped_by, refills, spills, switched, hot_pairs, pair_floor, places, memory_bytes
FROM batches
ORDER BY batch;

-- get_vetoed: the pairs of a training that would have made a blocked token, in the order they were met
-- -> seq, left_id, right_id, n.
SELECT seq, left_id, right_id, n FROM vetoed ORDER BY seq, rowid;

-- get_words_ahead: the merges and deletions of phase one that found no place in the model, in their order
-- -> op, left_id, right_id, id, n, parts.
SELECT op, left_id, right_id, id, n, parts FROM events WHERE seq IS NULL ORDER BY rowid;

-- list_event_counts: what every event did, and the count it was chosen by -> op, n; in the order of the events.
SELECT op, n FROM events WHERE seq IS NOT NULL ORDER BY seq;

-- get_longest_token: bytes of the longest token that there ever was -> one BIGINT.
SELECT coalesce(max(octet_length(bytes)), 0) FROM tokens;

-- list_vocabulary: the living tokens of a training -> id, bytes, kind, whether a supermerge made it, the number and the
-- count of the event that made it (both NULL for the alphabet and stop words); by id.
SELECT t.id, t.bytes, t.kind, coalesce(e.op = 'supermerge', false), e.seq + 1, e.n
FROM tokens AS t
LEFT JOIN events AS e ON e.seq = t.born
WHERE t.died IS NULL
ORDER BY t.id;

-- ---- Tables emptied before they are filled anew in the same transaction

-- clear_counts: empty the counted tables before they are filled again in the same transaction.
TRUNCATE chunk_counts;
TRUNCATE group_counts;
TRUNCATE sources;
DELETE FROM run WHERE key = 'edited';

-- make_new_counts: empty tables for the counts that a fold adds up, to be put in the place of the old ones.
CREATE OR REPLACE TABLE new_chunk_counts (chunk VARCHAR NOT NULL USING COMPRESSION uncompressed, n BIGINT NOT NULL);
CREATE OR REPLACE TABLE new_group_counts (chunk VARCHAR NOT NULL USING COMPRESSION uncompressed, group_name VARCHAR NOT NULL, n BIGINT NOT NULL);

-- take_new_counts: put the counts that are added up in the place of the old ones.
DROP TABLE chunk_counts;
ALTER TABLE new_chunk_counts RENAME TO chunk_counts;
DROP TABLE group_counts;
ALTER TABLE new_group_counts RENAME TO group_counts;

-- clear_source_groups: empty the table before it is filled anew in the same transaction.
TRUNCATE source_groups;

-- clear_pair_counts: empty the table before it is filled anew in the same transaction.
TRUNCATE pair_counts;

-- clear_token_counts: empty the table: what it holds is out of date while a training goes on.
DELETE FROM token_counts;

-- clear_words_ahead: remove the events that are not in the model, to be put in anew in the same transaction.
DELETE FROM events WHERE seq IS NULL;

-- clear_superwords: empty the tables of neighbours and runs before they are filled anew in the same transaction.
TRUNCATE superword_neighbours;
TRUNCATE superword_run_numbers;
TRUNCATE superword_chunks;

-- drop_training: remove the tables of a training, to be made anew in the same transaction.
DROP TABLE IF EXISTS events;
DROP TABLE IF EXISTS tokens;
DROP TABLE IF EXISTS pair_counts;
DROP TABLE IF EXISTS token_counts;
DROP TABLE IF EXISTS stop_words;
DROP TABLE IF EXISTS weighted_counts;
DROP TABLE IF EXISTS superword_neighbours;
DROP TABLE IF EXISTS superword_chunks;
DROP TABLE IF EXISTS superword_run_numbers;
DROP TABLE IF EXISTS batches;
DROP TABLE IF EXISTS vetoed;
DROP TABLE IF EXISTS facts;

-- ---- Temporary tables of weighing

-- make_group_weights: the weights of the groups, from rows that come from Python (registered as `incoming`).
CREATE OR REPLACE TEMP TABLE group_weights AS SELECT group_name, numerator FROM incoming;

-- make_rests: an empty table for how many weighted counts have each remainder.
CREATE OR REPLACE TEMP TABLE rests (rest BIGINT NOT NULL, n BIGINT NOT NULL);

-- add_rests: the remainders of one range.
INSERT INTO rests SELECT rest, count(*) FROM weighed GROUP BY rest;

-- count_rest: how many chunks of the range have this remainder -> one BIGINT.
SELECT count(*) FROM weighed WHERE rest = getvariable('least_rest');

-- ---- Temporary tables that `check` counts again into

-- make_recount: an empty table for counts that are added up again, private to this connection.
CREATE OR REPLACE TEMP TABLE recount (chunk VARCHAR NOT NULL, n BIGINT NOT NULL);

-- make_group_recount: the same for each group.
CREATE OR REPLACE TEMP TABLE recounted_group_counts (chunk VARCHAR NOT NULL, group_name VARCHAR NOT NULL, n BIGINT NOT NULL);

-- make_document_recount: an empty table for chunks counted in stored documents and for those in the committed parts.
CREATE OR REPLACE TEMP TABLE recounted_documents (chunk VARCHAR, in_documents BIGINT, in_counts BIGINT);

-- make_hashed_documents: an empty table for the 128 bits of the hash of each document, and where it stands.
CREATE OR REPLACE TEMP TABLE hashed_documents (
    lower UBIGINT NOT NULL,
    upper UBIGINT NOT NULL,
    place UBIGINT NOT NULL
);

-- ---- The private database of phase two (learning/tables.sql)

-- get_sum_note: what the neighbours were made of -> made_of; no row before they are added up.
SELECT made_of FROM made_of;

-- put_sum_note: say that the neighbours are added up, and what of.
INSERT INTO made_of VALUES (getvariable('made_of'));

-- list_neighbours: the neighbours that stand in at least so many places -> key (left << 32 | right), ascending.
SELECT left_id::BIGINT << 32 | right_id AS key FROM neighbours WHERE n >= getvariable('least') ORDER BY key;

-- list_neighbour_counts: the counts that neighbours have, from `least` on, and how many have each -> n, pairs; falling.
SELECT n, count(*) FROM neighbours WHERE n >= getvariable('least') GROUP BY n ORDER BY n DESC;
