-- sequences: compare the stored documents with the counts in the committed parts.
-- inputs:  max_rows BIGINT
-- reads:   recounted_documents (make_document_recount; each of its rows has either in_documents or in_counts)
-- returns: 'all', chunk, in_documents, in_counts: one row for each chunk whose counts differ, up to max_rows; one row for
--          all ids that stand for no chunk
-- by hand: it needs the records in the parts, so run `streambpe check RUN`
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
