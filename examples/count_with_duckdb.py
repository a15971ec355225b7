"""Count chunks with DuckDB. Then: streambpe count runs/en counts.parquet --counts --pattern EXPRESSION"""

import duckdb
import regex

split = regex.compile(r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+").findall
database = duckdb.connect()
database.create_function("chunks", lambda text: split(text), ["VARCHAR"], "VARCHAR[]")
counted = "SELECT unnest(chunks(text)) AS chunk, count(*) AS count FROM 'corpus/*.jsonl' GROUP BY chunk"
database.sql(f"COPY ({counted}) TO 'counts.parquet'")
