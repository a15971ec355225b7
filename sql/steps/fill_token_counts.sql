-- fill_token_counts: how often every token stands in the chunks learned from, once all is learned.
-- inputs:  freq_cutoff BIGINT, symbols_spell_chunks BOOLEAN (not SCRIPT's halves of characters), deletions BOOLEAN, longest_token BIGINT
-- reads:   incoming (one row = id, n, alone: occurrences in the words that were held; registered by the caller),
--          tokens, weighed_chunks (without deletions a chunk that spells a token is that token, whole, and is not in
--          incoming; with them incoming has all chunks of several symbols; stop words come first),
--          events (a token that only supermerges make is no chunk, though one may be spelled the same). A chunk that is
--          longer than every token may have megabytes: it is NULL in the join, which then does not hold it. A filter on
--          the length would make DuckDB hold all other chunks
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS SELECT id, 0::BIGINT AS n, 0::BIGINT AS alone FROM tokens LIMIT 0; then .read this file
DELETE FROM token_counts;
INSERT INTO token_counts
WITH whole AS (
    SELECT t.id, c.n
    FROM weighed_chunks AS c
    JOIN tokens AS t
        ON t.bytes = encode(CASE WHEN strlen(c.chunk) <= getvariable('longest_token') THEN c.chunk END)
        AND t.died IS NULL
    WHERE (c.n >= getvariable('freq_cutoff') OR t.kind = 'stop word')
        AND (t.kind <> 'base' OR getvariable('symbols_spell_chunks'))
        AND (t.kind <> 'learned'
            OR (NOT getvariable('deletions') AND t.id IN (SELECT id FROM events WHERE op = 'merge' AND seq IS NOT NULL)))
    QUALIFY rank() OVER (PARTITION BY c.chunk ORDER BY t.kind = 'stop word' DESC, t.id) = 1
)
SELECT id, sum(n)::BIGINT AS n, sum(alone)::BIGINT AS alone
FROM (
    SELECT id, n, alone FROM incoming
    UNION ALL
    SELECT id, n, n AS alone FROM whole
)
GROUP BY id
ORDER BY id;
