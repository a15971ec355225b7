-- weigh_range: put the weighted counts of a range of chunks, as integers and remainders, into a temporary table.
-- inputs:  first_chunk VARCHAR, end_chunk VARCHAR (not included; NULL: to the end), denominator BIGINT
-- reads:   group_counts, group_weights (columns group_name and numerator; the weight is numerator / denominator)
-- returns: nothing; it fills temporary table weighed: chunk, whole, rest (the weighted count is whole + rest / denominator)
-- by hand: it needs the weights as fractions, so run `streambpe train RUN --weight NAME=NUMBER`
CREATE OR REPLACE TEMP TABLE weighed AS
SELECT chunk, (total // getvariable('denominator'))::BIGINT AS whole, (total % getvariable('denominator'))::BIGINT AS rest
FROM (
    SELECT chunk, sum(n::HUGEINT * numerator) AS total
    FROM group_counts
    JOIN group_weights USING (group_name)
    WHERE chunk >= getvariable('first_chunk') AND (getvariable('end_chunk') IS NULL OR chunk < getvariable('end_chunk'))
    GROUP BY chunk
);
