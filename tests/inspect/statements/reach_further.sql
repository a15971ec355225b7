-- What is no file of RUN's either: the environment, settings, secrets, memory addresses, programs, other tables' names.
-- Behind each, a part of the message that refuses it.
SELECT getenv('HIDDEN_TOKEN')  --> getenv does not exist
FROM read_text('/proc/self/environ')  --> opens a file
FROM '/proc/self/environ'  --> does not run
FROM read_csv('/dev/stdin')  --> opens a file
FROM query_table('{out}/secret.csv')  --> opens a file
FROM duckdb_extensions()  --> opens a file
FROM force_checkpoint()  --> does not run
FROM disable_logging()  --> locked
FROM arrow_scan(1, 2, 3)  --> does not run
FROM arrow_scan('1'::POINTER, '2'::POINTER, '3'::POINTER)  --> does not run
FROM 's3://bucket/x.parquet'  --> opens a file
FROM read_parquet('https://127.0.0.1:1/x.parquet')  --> opens a file
FROM sqlite_scan('{out}/secret.csv', 'x')  --> extension sqlite_scanner
FROM postgres_scan('host=127.0.0.1', 'public', 'x')  --> does not run
FROM st_read('{out}/secret.csv')  --> extension spatial
FROM read_xlsx('{out}/secret.xlsx')  --> extension excel
FROM load_aws_credentials()  --> extension aws
FROM dbgen(sf = 1)  --> extension tpch
SELECT set_config('threads', '1')  --> does not run
SELECT pg_read_file('{out}/secret.csv')  --> does not run
SELECT 1; SET enable_external_access = true; FROM '{out}/secret.csv'  --> is SET
SELECT 1 /* ; */; ATTACH '{out}/x.duckdb' -- SELECT  --> is ATTACH
/* SELECT */ COPY run TO '{out}/x.csv'  --> is COPY
SET lock_configuration = false  --> is SET
RESET lock_configuration  --> is SET
SET disabled_filesystems = ''  --> is SET
SET extension_directory = '{out}'  --> is SET
SET allow_unsigned_extensions = true  --> is SET
ATTACH 'https://127.0.0.1:1/x.duckdb' AS x  --> is ATTACH
INSTALL spatial FROM community  --> is LOAD
COPY (SELECT 1) TO '/dev/stdout'  --> is COPY
SELECT * INTO mine FROM run  --> does not run
SELECT (SELECT content FROM read_text('{out}/secret.csv'))  --> opens a file
SELECT * FROM (SUMMARIZE '{out}/secret.csv')  --> opens a file
FROM run.csv  --> opens a file
