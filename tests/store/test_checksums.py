"""Parquet files with a checksum: every program reads them, and no byte of them rots unseen."""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.store.checksums import Damaged, add_checksum, refuse_damaged

ROWS = pl.DataFrame({"chunk": [f"chunk {i % 40}" for i in range(60)], "n": range(60)})


@pytest.fixture(params=["polars", "pyarrow"])
def file(request, tmp_path):
    """A file that one of our two writers made, with its checksum."""
    path = tmp_path / "rows.parquet"
    if request.param == "polars":
        ROWS.write_parquet(path, compression="zstd", metadata={"made": "of"})
    else:
        pq.write_table(ROWS.to_arrow(), path, row_group_size=16)
    add_checksum(path)
    return path


def test_every_reader_reads_it(file):
    """pyarrow whole and by row groups, its footer, Polars, DuckDB: none minds the checksum."""
    refuse_damaged(file)
    assert pl.read_parquet(file).equals(ROWS)
    assert pl.scan_parquet(file).select(pl.len()).collect().item() == 60
    assert pl.DataFrame(pl.from_arrow(pq.read_table(file))).equals(ROWS)
    assert pq.read_metadata(file).num_rows == 60
    with pq.ParquetFile(file, pre_buffer=False) as opened:
        rows = [opened.read_row_group(i) for i in range(opened.num_row_groups)]
    assert pl.DataFrame(pl.from_arrow(pa.concat_tables(rows))).equals(ROWS)
    assert duckdb.execute("SELECT chunk, n FROM read_parquet(?)", [str(file)]).fetchall() == ROWS.rows()


def test_no_byte_rots_unseen(file):
    """Every byte changed, every length cut: refused."""
    data = file.read_bytes()
    for at in range(len(data)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            refuse_damaged(file)
        except Damaged:
            continue
        assert at >= len(data) - 8  # the length of the footer, and the end: readers look at them
        with pytest.raises((OSError, pa.ArrowException)):
            pq.read_table(file)
    for size in range(0, len(data), 3):
        file.write_bytes(data[:size])
        with pytest.raises(Damaged):
            refuse_damaged(file)
    ROWS.write_parquet(file)
    with pytest.raises(Damaged, match="has lost its checksum"):
        refuse_damaged(file)
