-- Statements that do more than read: each is refused.
COPY chunk_counts TO '{out}/x.csv'
COPY chunk_counts TO '{run}/state.duckdb.wal'
COPY (SELECT 1) TO '{out}/x.parquet'
COPY chunk_counts FROM '{out}/secret.csv'
COPY (PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)) TO '{run}/state.duckdb.wal'
COPY FROM DATABASE state TO memory
EXPLAIN ANALYZE COPY (SELECT 1) TO '{run}/state.duckdb.wal'
EXPORT DATABASE '{out}/exported'
IMPORT DATABASE '{out}/exported'
ATTACH '{out}/other.duckdb' AS other
ATTACH ':memory:' AS other
DETACH state
INSTALL httpfs
LOAD httpfs
LOAD '{out}/x.duckdb_extension'
FORCE INSTALL httpfs
UPDATE EXTENSIONS
PRAGMA show_tables
PRAGMA enable_profiling = 'json'
PRAGMA profile_output = '{out}/profile.json'
PRAGMA import_database('{out}')
SET threads = 1
SET VARIABLE a = 1
SET enable_external_access = true
SET temp_directory = '{out}'
SET GLOBAL allowed_directories = ['{out}']
RESET enable_external_access
USE memory
CALL pragma_version()
CALL enable_logging('QueryLog', storage = 'file', storage_path = '{out}')
CHECKPOINT
VACUUM
ANALYZE
BEGIN TRANSACTION
PREPARE p AS SELECT 1
EXECUTE p
CREATE TEMP TABLE mine AS SELECT 1
CREATE TABLE mine AS PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)
CREATE MACRO f(x) AS x
CREATE SECRET s (TYPE http, BEARER_TOKEN 'x')
CREATE SCHEMA mine
DROP TABLE chunk_counts
ALTER TABLE chunk_counts RENAME TO other
COMMENT ON TABLE chunk_counts IS 'x'
INSERT INTO chunk_counts VALUES ('x', 1)
UPDATE chunk_counts SET n = 1
DELETE FROM chunk_counts
TRUNCATE chunk_counts
MERGE INTO chunk_counts AS a USING chunk_counts AS b ON a.chunk = b.chunk WHEN MATCHED THEN DELETE
