-- weigh_range: the weighted counts of a range of chunks, as whole parts and remainders, into a temporary table.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (the range ends before it; NULL: it goes to the end), denominator BIGINT
-- reads:   group_counts, group_weights (one row = group_name, numerator: its weight is numerator / denominator)
-- returns: nothing; temporary table weighed: chunk, whole, rest (weighted count = whole + rest / denominator)
-- by hand: needs the weights as fractions; run `streambpe train RUN --weight NAME=NUMBER`
CREATE OR REPLACE TEMP TABLE weighed AS
SELECT chunk, (total // getvariable('denominator'))::BIGINT AS whole, (total % getvariable('denominator'))::BIGINT AS rest
FROM (
    SELECT chunk, sum(n::HUGEINT * numerator) AS total
    FROM group_counts
    JOIN group_weights USING (group_name)
    WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
    GROUP BY chunk
);
