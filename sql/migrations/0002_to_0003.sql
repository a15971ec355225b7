-- 0002_to_0003: superwords have tables of their runs. The schema makes them; trainings from before have nothing in them.
-- inputs:
-- reads:   nothing
-- returns: nothing
-- by hand: nothing is to be done
SELECT NULL WHERE false;
