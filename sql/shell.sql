-- shell: everything, in order, for the duckdb shell. Run it from the checkout or from site-packages/streambpe:
--     duckdb RUN/state.duckdb -f sql/shell.sql
-- Creates what is missing and refreshes the views; it never drops a table.
.read sql/schema/run.sql
.read sql/schema/sources.sql
.read sql/schema/chunk_counts.sql
.read sql/schema/source_groups.sql
.read sql/schema/group_counts.sql
.read sql/schema/training.sql
.read sql/macros/shown.sql
.read sql/views/source_files.sql
.read sql/views/chunk_frequencies.sql
.read sql/views/rare_chunks.sql
.read sql/views/vocabulary.sql
.read sql/views/top_pairs.sql
.read sql/views/merge_curve.sql
.read sql/views/weighed_chunks.sql
.read sql/views/training_chunks.sql
.read sql/views/deletions.sql
.read sql/views/token_usage.sql
.read sql/views/single_token_chunks.sql
.read sql/views/superwords.sql
.read sql/views/superword_adjacency.sql
.read sql/views/superword_candidates.sql
.read sql/views/superword_runs.sql
.read sql/views/progress.sql
.read sql/views/left_out.sql
