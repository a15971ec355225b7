-- fill_token_counts: how often each token occurs in the training chunks at the end of a training.
-- inputs:  freq_cutoff BIGINT, symbols_spell_chunks BOOLEAN (false for SCRIPT's symbols), deletions BOOLEAN, longest_token BIGINT
-- reads:   incoming (columns id, n, alone: occurrences in the words held by the learner; registered by the caller),
--          tokens, weighed_chunks (without deletions, a chunk that is spelled like a token is that token as a whole, and
--          is not in incoming; with deletions, incoming has all chunks of several symbols; stop words come first),
--          events (a token that only supermerges make is not a chunk, even if a chunk is spelled the same). Chunks and
--          tokens may be megabytes long: long ones are compared by length and SHA-256, and chunks longer than any
--          token are NULL, so that the join holds none of them. A filter on the length would make DuckDB hold all
--          other chunks
-- returns: nothing
-- by hand: CREATE TEMP TABLE incoming AS SELECT id, 0::BIGINT AS n, 0::BIGINT AS alone FROM tokens LIMIT 0; then .read this file
DELETE FROM token_counts;
INSERT INTO token_counts
WITH spellings AS (
    SELECT
        n,
        strlen(chunk) AS size,
        CASE
            WHEN strlen(chunk) <= 1024 THEN encode(chunk)
            WHEN strlen(chunk) <= getvariable('longest_token') THEN unhex(sha256(chunk))
        END AS spelling
    FROM weighed_chunks
), spelled AS (
    SELECT
        id,
        kind,
        octet_length(bytes) AS size,
        CASE WHEN octet_length(bytes) <= 1024 THEN bytes ELSE unhex(sha256(bytes)) END AS spelling
    FROM tokens
    WHERE died IS NULL
), whole AS (
    SELECT t.id, c.n
    FROM spellings AS c
    JOIN spelled AS t USING (spelling, size)
    WHERE (c.n >= getvariable('freq_cutoff') OR t.kind = 'stop word')
        AND (t.kind <> 'base' OR getvariable('symbols_spell_chunks'))
        AND (t.kind <> 'learned'
            OR (NOT getvariable('deletions') AND t.id IN (SELECT id FROM events WHERE op = 'merge' AND seq IS NOT NULL)))
    QUALIFY rank() OVER (PARTITION BY spelling, size ORDER BY t.kind = 'stop word' DESC, t.id) = 1
)
SELECT id, sum(n)::BIGINT AS n, sum(alone)::BIGINT AS alone
FROM (
    SELECT id, n, alone FROM incoming
    UNION ALL
    SELECT id, n, n AS alone FROM whole
)
GROUP BY id
ORDER BY id;
