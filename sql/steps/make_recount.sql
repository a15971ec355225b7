-- make_recount: an empty table for counts that are added up again, private to this connection.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: .read sql/steps/make_recount.sql
CREATE OR REPLACE TEMP TABLE recount (chunk VARCHAR NOT NULL, n BIGINT NOT NULL);
