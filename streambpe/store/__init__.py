"""A RUN on disk: its folder, the committed parts of its counts, the tables of state.duckdb."""
