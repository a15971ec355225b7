-- sequences: the stored documents against the counts of the committed parts.
-- inputs:  max_rows BIGINT
-- reads:   recounted_documents (make_document_recount; a row of it has either in_documents or in_counts)
-- returns: 'all', chunk, in_documents, in_counts: one row for every chunk on which they differ, up to max_rows; one for
--          all ids that are none of the chunks
-- by hand: needs the parts' own records; run `streambpe check RUN`
SELECT
    'all' AS part,
    coalesce(chunk, 'ids beyond the chunks of their part') AS chunk,
    sum(in_documents)::BIGINT AS in_documents,
    sum(in_counts)::BIGINT AS in_counts
FROM recounted_documents
GROUP BY recounted_documents.chunk
HAVING coalesce(sum(in_documents), 0) <> coalesce(sum(in_counts), 0)
ORDER BY recounted_documents.chunk
LIMIT getvariable('max_rows');
