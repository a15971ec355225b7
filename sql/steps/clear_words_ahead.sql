-- clear_words_ahead: remove the events that are not in the model, to be put in anew in the same transaction.
-- inputs:
-- reads:   events
-- returns: nothing
-- by hand: duckdb RUN/state.duckdb -f sql/steps/clear_words_ahead.sql
DELETE FROM events WHERE seq IS NULL;
