-- find_repeats: how many documents of each source are not a copy of an earlier one, and which of them has the most copies.
-- inputs:  number_bits BIGINT
-- reads:   hashed_documents (make_hashed_documents; a place is source << number_bits | number in the source)
-- returns: source, the number of documents, the most copies of one of them, and its place (the first of several); ordered
-- by hand: it needs the hashes of the documents, so run `streambpe check RUN --repeats`
SELECT
    place >> getvariable('number_bits') AS source,
    count(*) AS first_copies,
    max(copies) AS most_copies,
    arg_min(place, (-copies, place)) AS place_of_most
FROM (
    SELECT min(place) AS place, count(*) AS copies
    FROM hashed_documents
    GROUP BY lower, upper
)
GROUP BY source
ORDER BY source;
