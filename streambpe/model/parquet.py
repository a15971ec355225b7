"""The event log's Parquet twin: one row per event, the header as one line of JSON in the file's metadata.

For tools that read tables: DuckDB, Polars, pandas. Log -> Parquet -> log gives the same bytes.

    SELECT op, count(*) FROM 'model.events.parquet' GROUP BY op
"""

from __future__ import annotations

import os

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.errors import EventLogError
from streambpe.model.eventlog import MOST_SYMBOLS, EventLog, events_digest, header_line, read_event_lines

_KEY = b"streambpe-events"
_MOST_PACKED = 100  # times smaller than what it holds may a file be: equal rows take no room, and ids are never equal
_SCHEMA = pa.schema(
    [
        pa.field("op", pa.dictionary(pa.int8(), pa.string())),
        pa.field("left", pa.int64()),
        pa.field("right", pa.int64()),
        pa.field("id", pa.int64()),
        pa.field("into", pa.list_(pa.int64())),
        pa.field("n", pa.int64()),
    ]
)


def parquet_of(log: EventLog) -> bytes:
    """The log as a Parquet file."""
    header = header_line(log.header, len(log.events), events_digest(log.events)).rstrip(b"\n")
    schema = _SCHEMA.with_metadata({_KEY: header})
    table = pa.Table.from_pylist([msgspec.to_builtins(event) for event in log.events], schema)
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="zstd")
    content: bytes = out.getvalue().to_pybytes()
    return content


def read_parquet(path: str | os.PathLike[str]) -> EventLog:
    """Read and check a log's Parquet twin; an error names the line that it would be in the log."""
    try:
        with open(path, "rb") as file:  # Arrow takes some relative names for addresses
            about, most = pq.read_metadata(file), os.fstat(file.fileno()).st_size
            for number in range(about.num_columns):
                pieces = [about.row_group(group).column(number) for group in range(about.num_row_groups)]
                # a list may say the same many times over; no model's tokens are longer than that together
                is_list = bool(pieces) and pieces[0].path_in_schema.startswith("into.")
                values = max(most, MOST_SYMBOLS) if is_list else most
                unpacked = sum(one.total_uncompressed_size for one in pieces)
                if sum(one.num_values for one in pieces) > values or unpacked > _MOST_PACKED * most:
                    raise EventLogError(
                        f"{path} holds far more than its {most:,} bytes can say of events. Nothing was read."
                    )
            table = pq.read_table(file, columns=_SCHEMA.names)
    except (OSError, pa.ArrowException, KeyError) as why:
        raise EventLogError(
            f"{path} cannot be read as the Parquet twin of an event log: {str(why).rstrip('.')}."
        ) from None
    header = (table.schema.metadata or {}).get(_KEY)
    if header is None:
        raise EventLogError(f"{path} is a Parquet file, but not an event log: its metadata has no {_KEY.decode()!r}.")
    rows = ({key: value for key, value in row.items() if value is not None} for row in table.to_pylist())
    return read_event_lines([header, *map(msgspec.json.encode, rows)], str(path))
