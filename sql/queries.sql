-- queries: short named statements, which mostly look up, insert, clear or append.
-- Python runs each by its name: run_sql(con, "get_run"). Those that compute more have their own files in steps/.

-- append: insert rows from Python (registered as `incoming`) into a table, matching columns by name.
INSERT INTO {table} BY NAME SELECT * FROM incoming;

-- ---- Facts and contents

-- get_run: all facts about the run -> key, value; ordered by key.
SELECT key, value FROM run ORDER BY key;

-- put_facts: set facts about the run (table run) or a training (table facts), by key.
INSERT OR REPLACE INTO {fact_table} SELECT unnest(getvariable('keys')), unnest(getvariable('texts'));

-- get_facts: all facts about a training -> key, value; ordered by key.
SELECT key, value FROM facts ORDER BY key;

-- list_stretches: the stretches of inputs recorded in the tables -> the columns of table sources.
SELECT * REPLACE (coalesce(group_name, '') AS group_name, coalesce(bad_lines, 0) AS bad_lines) FROM sources;

-- get_database: DuckDB's name for the database that the connection was opened with -> name.
SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'private';

-- get_bounds: the memory limit of the database, such as "70.5 MiB", and the path of its file, NULL if it is in memory
--         -> both. While the database of superwords is attached, both paths are there, joined by "or".
SELECT current_setting('memory_limit'), string_agg(path, ' or ' ORDER BY database_name)
FROM duckdb_databases() WHERE NOT internal AND database_name <> 'private';

-- get_threads: the number of threads the database uses -> one BIGINT.
SELECT current_setting('threads');

-- list_trainings: the schemas that hold a training -> name, ordered.
SELECT schema_name
FROM duckdb_tables()
WHERE table_name = 'facts' AND NOT temporary AND database_name <> 'private'
ORDER BY schema_name;

-- get_source_groups: what was counted in each group of sources
-- -> group_name, documents, bytes, chunks, sha256; ordered by name.
SELECT group_name, documents, bytes, chunks, sha256 FROM source_groups ORDER BY group_name;

-- count_group_characters: how many characters the chunks of each group have -> group_name, characters; every group of
-- source_groups, ordered by name.
SELECT group_name, coalesce(sum(length(chunk) * n::HUGEINT), 0)
FROM source_groups LEFT JOIN group_counts USING (group_name)
GROUP BY group_name ORDER BY group_name;

-- count_training_bytes: how many bytes the chunks that a training learns from have in the text -> the sum.
SELECT coalesce(sum(strlen(chunk) * n::HUGEINT), 0) FROM training_chunks;

-- count_folded: how many rows tables events (of the model), batches, tokens and vetoed have -> the four numbers.
SELECT
    (SELECT count(seq) FROM events),
    (SELECT count(*) FROM batches),
    (SELECT count(*) FROM tokens),
    (SELECT count(*) FROM vetoed);

-- read_range: the rows of a table or view of chunks from one chunk up to, but not including, another (NULL: to the end)
-- -> chunk, n; ordered by the chunks' bytes.
SELECT chunk, n
FROM {table}
WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
ORDER BY chunk;

-- read_group_range: the counts of every group for a range of chunks, as in read_range -> chunk, group_name, n; ordered by
-- the chunks' bytes.
SELECT chunk, group_name, n
FROM group_counts
WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
ORDER BY chunk, group_name;

-- read_as_they_lie: all rows of a table or view of chunks, in the order of the file -> chunk, n. That is the order of the
-- chunks' bytes unless rows were inserted by hand.
SELECT chunk, n FROM {table};

-- fill_stop_words: copy the stop words from the tokens to their table, once.
INSERT INTO stop_words
SELECT id, decode(bytes) FROM tokens WHERE kind = 'stop word' AND id NOT IN (SELECT id FROM stop_words);

-- has_weighted_counts: whether table weighted_counts has any rows -> one BOOLEAN.
SELECT EXISTS (FROM weighted_counts);

-- ---- Results of a training

-- get_batches: the passes of a training -> the columns of batches, as in the schema; ordered by batch.
SELECT
    batch, first_seq, events, seconds, mode, occurrences, executed, refills, spills, hot_pairs, places, memory_bytes
FROM batches
ORDER BY batch;

-- get_vetoed: the pairs that would have made a blocked token, in the order in which training met them
-- -> seq, left_id, right_id, n.
SELECT seq, left_id, right_id, n FROM vetoed ORDER BY seq, rowid;

-- get_longest_token: the length in bytes of the longest token that ever existed -> one BIGINT.
SELECT coalesce(max(octet_length(bytes)), 0) FROM tokens;

-- ---- Tables cleared and refilled in one transaction

-- drop_counts: drop or clear the counted tables, to make and fill them anew in the same transaction.
DROP TABLE chunk_counts;
DROP TABLE group_counts;
TRUNCATE sources;
TRUNCATE source_groups;

-- clear_pair_counts: clear the table, to refill it in the same transaction.
TRUNCATE pair_counts;

-- clear_token_counts: clear the table, which is out of date while a training continues.
DELETE FROM token_counts;

-- clear_words_ahead: remove the events that are not in the model, to insert them anew in the same transaction.
DELETE FROM events WHERE seq IS NULL;

-- clear_superwords: clear the tables of neighbours and runs, to refill them in the same transaction.
TRUNCATE superword_neighbours;
TRUNCATE superword_run_numbers;
TRUNCATE superword_chunks;

-- drop_training: drop the tables of a training, to create them anew in the same transaction.
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

-- ---- Temporary tables for weights

-- make_group_weights: the weights of the groups, from rows from Python (registered as `incoming`).
CREATE OR REPLACE TEMP TABLE group_weights AS SELECT group_name, numerator FROM incoming;

-- make_rests: an empty table for the number of weighted counts with each remainder.
CREATE OR REPLACE TEMP TABLE rests (rest BIGINT NOT NULL, n BIGINT NOT NULL);

-- add_rests: add how many weighted counts of one range have each remainder.
INSERT INTO rests SELECT rest, count(*) FROM weighed GROUP BY rest;

-- count_rest: the number of chunks in the range with this remainder -> one BIGINT.
SELECT count(*) FROM weighed WHERE rest = getvariable('least_rest');

-- ---- Temporary tables for the recounts of `check`

-- make_recount: an empty table for a recount, private to this connection.
CREATE OR REPLACE TEMP TABLE recount (chunk VARCHAR NOT NULL, n BIGINT NOT NULL);

-- make_group_recount: the same for each group.
CREATE OR REPLACE TEMP TABLE recounted_group_counts (chunk VARCHAR NOT NULL, group_name VARCHAR NOT NULL, n BIGINT NOT NULL);

-- ---- The neighbours of superwords that were added up (train/superwords/sums.py)

-- get_chunk_numbers: the numbers in superword_chunks of the symbols in incoming (symbol, chunk) -> symbol, number.
SELECT symbol, number FROM incoming JOIN superword_chunks USING (chunk);

-- list_neighbours: the neighbours that are adjacent in at least this many places -> key (left << 32 | right), ascending.
SELECT key FROM read_parquet(getvariable('neighbours'), hive_partitioning = false)
WHERE key >= 0 AND n >= getvariable('least') ORDER BY key;

-- list_neighbour_counts: the counts of neighbours, from `least` up, and how many neighbours have each -> n, pairs;
-- highest count first.
SELECT n, count(*) FROM read_parquet(getvariable('neighbours'), hive_partitioning = false)
WHERE key >= 0 AND n >= getvariable('least') GROUP BY n ORDER BY n DESC;

-- list_merges: what the merges of the first stage count in the second; their keys are -1, -2, ... -> place, n.
SELECT -1 - key, n FROM read_parquet(getvariable('neighbours'), hive_partitioning = false)
WHERE key < 0 ORDER BY ALL;
