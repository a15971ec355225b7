-- find_repeats: how many documents of each source have no equal one before them, and which of these has the most copies.
-- inputs:  number_bits BIGINT
-- reads:   hashed_documents (make_hashed_documents; a place is source << number_bits | number there)
-- returns: source, how many, copies of the one with the most, its place (the least of several); in order
-- by hand: needs the documents' hashes; run `streambpe check RUN --repeats`
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
