-- Statements that reach for files: each is refused.
SELECT * FROM read_csv('{out}/secret.csv')
SELECT * FROM '{out}/secret.csv'
SELECT * FROM '{out}/*.csv'
FROM read_text('{out}/secret.csv')
FROM read_text(['{out}/secret.csv'])
FROM read_blob('{out}/secret.csv')
FROM read_json('{out}/secret.csv')
FROM read_parquet('{out}/secret.csv')
FROM read_duckdb('{out}/secret.csv')
FROM sniff_csv('{out}/secret.csv')
FROM parquet_metadata('{out}/secret.csv')
FROM glob('{out}/*')
FROM glob('{run}/*')
FROM read_text('{run}/status.json')
FROM read_text('/etc/passwd')
FROM 'https://example.com/x.csv'
DESCRIBE '{out}/secret.csv'
SUMMARIZE '{out}/secret.csv'
WITH a AS (FROM '{out}/secret.csv') FROM a
FROM query('FROM read_text(''{out}/secret.csv'')')
FROM query('COPY chunk_counts TO ''{out}/x.csv''')
FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{out}/secret.csv'')'))
FROM enable_logging('QueryLog', storage = 'file', storage_path = '{out}/logs')
FROM enable_profiling(save_location = '{out}/profile.json')
WITH a AS (INSERT INTO chunk_counts VALUES ('x', 1) RETURNING *) FROM a
