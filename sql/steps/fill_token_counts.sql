-- fill_token_counts: how often every token stands in the chunks learned from, once all is learned.
-- inputs:  freq_cutoff BIGINT, symbols_spell_chunks BOOLEAN (a SCRIPT symbol is half a character: no chunk is one)
-- reads:   incoming (one row = id, n: occurrences inside chunks of several tokens; registered by the caller),
--          tokens, training_chunks (a chunk that spells a living token is that token, whole; stop words come first),
--          events (a token that only supermerges make is no chunk, though one may be spelled the same)
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS SELECT id, 0::BIGINT AS n FROM tokens LIMIT 0; then .read this file
DELETE FROM token_counts;
INSERT INTO token_counts
WITH whole AS (
    SELECT t.id, c.n
    FROM training_chunks AS c
    JOIN tokens AS t ON t.bytes = encode(c.chunk) AND t.died IS NULL
    WHERE (c.n >= getvariable('freq_cutoff') OR t.kind = 'stop word')
        AND (t.kind <> 'base' OR getvariable('symbols_spell_chunks'))
        AND (t.kind <> 'learned' OR t.id IN (SELECT id FROM events WHERE op = 'merge' AND seq IS NOT NULL))
    QUALIFY row_number() OVER (PARTITION BY c.chunk ORDER BY t.kind = 'stop word' DESC, t.id) = 1
)
SELECT id, sum(n)::BIGINT AS n, sum(alone)::BIGINT AS alone
FROM (
    SELECT id, n, 0 AS alone FROM incoming
    UNION ALL
    SELECT id, n, n AS alone FROM whole
)
GROUP BY id
ORDER BY id;
