-- longest_tokens: the longest tokens that some kind of event made: living ones, and not runs of white space.
-- inputs:  op VARCHAR, max_rows BIGINT
-- reads:   events, tokens
-- returns: bytes, n; the longest first
-- by hand: duckdb -readonly RUN/state.duckdb -cmd "SET VARIABLE op='merge'; SET VARIABLE max_rows=9" -f this file
SELECT t.bytes, e.n
FROM tokens AS t
JOIN events AS e ON e.seq = t.born
WHERE e.op = getvariable('op') AND t.died IS NULL
    AND NOT coalesce(regexp_full_match(try(decode(t.bytes)), '[\s\x{85}\x{A0}\x{2000}-\x{200A}\x{3000}]*'), false)
ORDER BY octet_length(t.bytes) DESC, t.id
LIMIT getvariable('max_rows');
