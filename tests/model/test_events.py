"""Events as columns are the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streambpe.model.eventlog import events_digest
from streambpe.model.events import Events, delete_event, event_line, merge_event, supermerge_event

IDS = st.integers(0, 2**62)
ANY = st.one_of(
    st.builds(merge_event, IDS, IDS, IDS, IDS),
    st.builds(supermerge_event, IDS, IDS, IDS, IDS),
    st.builds(delete_event, IDS, st.lists(IDS, min_size=2, max_size=5), IDS),
)


@given(st.lists(ANY, max_size=40), st.data())
def test_columns_are_the_same_events(events, data):
    """One by one, in slices, cut off, as lines."""
    columns = Events.of(events)
    assert list(columns) == events
    assert [columns[i] for i in range(-len(events), len(events))] == events + events
    start, stop = (data.draw(st.integers(-45, 45)) for _ in range(2))
    step = data.draw(st.sampled_from([None, 1, 2, -1]))
    assert list(columns[start:stop:step]) == events[start:stop:step]
    assert columns == events
    assert b"".join(columns.lines(2)) == b"".join(map(event_line, events[2:]))
    assert events_digest(columns) == events_digest(events)
    part = columns[:start]
    for event in events:
        part.append(event)
    assert part == events[:start] + events
    assert columns == events
