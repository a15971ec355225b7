-- source_files: one row is an input under the name the user gave it, with the sums over its counted stretches.
CREATE OR REPLACE VIEW source_files AS
SELECT
    path,
    any_value(kind)                      AS kind,
    any_value(group_name)                AS group_name,
    count(*)                             AS parts,
    sum(documents)::BIGINT               AS documents,
    sum(text_bytes)::BIGINT              AS text_bytes,
    sum(bad_utf8)::BIGINT                AS bad_utf8,
    sum(boms)::BIGINT                    AS boms,
    sum(nulls)::BIGINT                   AS nulls,
    sum(dropped)::BIGINT                 AS dropped,
    sum(bad_lines)::BIGINT               AS bad_lines,
    sum(cut_documents)::BIGINT           AS cut_documents,
    sum(cut_bytes)::BIGINT               AS cut_bytes,
    any_value(file_bytes)                AS file_bytes,
    bool_or(state = 'last') AND sum(stop_at - start_at) = max(stop_at) AS complete
FROM sources
GROUP BY path
ORDER BY path;
