-- find_repeats: for each source, how many documents and copies it has, and which document has the most copies.
-- inputs:  number_bits BIGINT
-- reads:   hashed_documents (make_hashed_documents; a place is source << number_bits | number in the source)
-- returns: source, documents, repeated, most_copies and place_of_most (of documents first found in it); by source
-- by hand: it needs the hashes of the documents, so run `streambpe check RUN --repeats`
WITH alike AS (
    SELECT min(place) AS place, count(*) AS copies
    FROM hashed_documents
    GROUP BY lower, upper
),
firsts AS (
    SELECT
        place >> getvariable('number_bits') AS source,
        count(*) AS documents,
        max(copies) AS most_copies,
        arg_min(place, (-copies, place)) AS place_of_most
    FROM alike
    GROUP BY source
),
every AS (
    SELECT place >> getvariable('number_bits') AS source, count(*) AS documents
    FROM hashed_documents
    GROUP BY source
)
SELECT
    source,
    every.documents,
    every.documents - coalesce(firsts.documents, 0) AS repeated,
    coalesce(most_copies, 0) AS most_copies,
    place_of_most
FROM every
LEFT JOIN firsts USING (source)
ORDER BY source;
