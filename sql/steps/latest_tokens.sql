-- latest_tokens: the tokens learned last, the newest first.
-- inputs:  max_rows BIGINT
-- reads:   events, tokens
-- returns: bytes, n
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE max_rows=9" -f sql/steps/latest_tokens.sql
SELECT t.bytes, e.n
FROM events AS e
JOIN tokens AS t ON t.id = e.id
WHERE e.seq IS NOT NULL
ORDER BY e.seq DESC
LIMIT getvariable('max_rows');
