-- get_vetoed: the pairs of a training that would have made a blocked token.
-- inputs:
-- reads:   vetoed
-- returns: seq, left_id, right_id, n; in the order they were met
-- by hand: duckdb -readonly RUN/state.duckdb -f sql/steps/get_vetoed.sql
SELECT seq, left_id, right_id, n FROM vetoed ORDER BY seq, rowid;
