-- count_folded: how far the tables of a training have come.
-- inputs:
-- reads:   events, batches, tokens, vetoed
-- returns: events, batches, tokens, vetoed: rows of each
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/count_folded.sql
SELECT
    (SELECT count(seq) FROM events),
    (SELECT count(*) FROM batches),
    (SELECT count(*) FROM tokens),
    (SELECT count(*) FROM vetoed);
