"""The event log file: byte-stable, and damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streambpe.errors import EventLogError
from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import (
    EventLog,
    Header,
    Special,
    StopWord,
    delete_event,
    events_digest,
    log_lines,
    merge_event,
    read_event_log,
    supermerge_event,
    write_event_log,
)
from streambpe.model.replay import events_for_size
from tests.samples import written

DOC = Path(__file__).parents[2] / "docs" / "event-log.md"
LOG = EventLog(
    Header(
        bytes_alphabet().to_header(),
        config={"vocab_size": 300, "pattern": "gpt4o", "ties": "ids"},
        unicode="17.0.0",
        corpus={"documents": 2, "bytes": 90},
        stop_words=(StopWord(256, b" of"),),
        specials=(Special("<|fin de texte ☃|>", 260),),
        reserved=3,
    ),
    (
        merge_event(97, 98, 257, 12),
        merge_event(257, 99, 258, 11),
        delete_event(257, [97, 98], 1),
        supermerge_event(258, 258, 259, 2**62),
    ),
)


@pytest.fixture
def lines() -> list[bytes]:
    return b"".join(log_lines(LOG)[0]).splitlines(keepends=True)


def damaged(tmp_path: Path, lines: list[bytes]) -> Path:
    return written(tmp_path / "model.events.jsonl", b"".join(lines))


def test_a_log_reads_back_as_it_was_written(tmp_path):
    """Write, read, write again: equal objects and equal bytes."""
    path, again = tmp_path / "model.events.jsonl", tmp_path / "again.jsonl"
    digest = write_event_log(path, LOG)
    assert read_event_log(path) == LOG
    assert write_event_log(again, read_event_log(path)) == digest == events_digest(LOG.events)
    assert again.read_bytes() == path.read_bytes()
    assert {*tmp_path.iterdir()} == {path, again}  # no temporary file stays


def test_the_bytes_are_ascii_and_do_not_depend_on_the_order_options_were_given(lines):
    """The same config built in another order gives the same file; text outside ASCII is escaped."""
    config = dict(reversed(LOG.header.config.items()))
    other = EventLog(Header(**{**vars(LOG.header), "config": config}), LOG.events)
    assert b"".join(log_lines(other)[0]) == b"".join(lines)
    assert b"".join(lines).isascii()
    assert b" " not in lines[1]
    assert list(json.loads(lines[0]))[:2] == ["format", "version"]


def test_the_document_shows_a_real_log(tmp_path):
    """The example in docs/event-log.md is a file this reader accepts, byte for byte."""
    example = DOC.read_text().split("```\n")[1].encode()
    log = read_event_log(damaged(tmp_path, [example]))
    assert b"".join(log_lines(log)[0]) == example
    assert events_for_size(log.header, log.events, log.header.config["vocab_size"]) == len(log.events) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: b"", "line 1: the file is empty"),
        (lambda whole: whole[:40], r"model\.events\.jsonl: line 1: .*cut off"),
        (lambda whole: whole[:-1], r"model\.events\.jsonl: line 5: .*cut off"),
        (lambda whole: whole[: whole.rindex(b"{")], "line 4: the header promises 4 events, the file holds 3"),
        (lambda whole: whole + whole[whole.rindex(b"{") :], "promises 4 events, the file holds 5"),
        (lambda whole: whole.replace(b'"n":12', b'"n":13'), "sha256"),
    ],
    ids=["empty", "half a header", "half a line", "a line lost", "a line more", "another count"],
)
def test_a_file_that_is_not_whole_is_refused(tmp_path, lines, change, message):
    """The message names the file and the line."""
    with pytest.raises(EventLogError, match=message):
        read_event_log(damaged(tmp_path, [change(b"".join(lines))]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3: the file is damaged, .*truncated"),
        (b'{"op":"split","id":1,"into":[2,3],"n":4}', r"line 3: .*Invalid value 'split' - at `\$\.op`"),
        (b'{"op":"merge","left":257,"right":99,"id":258}', "line 3: .*missing required field `n`"),
        (b'{"op":"merge","left":257,"right":99,"id":258,"n":1.5}', r"line 3: .*got `float` - at `\$\.n`"),
        (b'{"op":"merge","left":257,"right":99,"id":258,"n":9223372036854775808}', "line 3: .*<= 9223372036854775807"),
        (b'{"op":"merge","left":256,"right":99,"id":258,"n":11}', "line 3: uses id 256"),  # a stop word
        (b'{"op":"merge","left":257,"right":99,"id":260,"n":11}', "line 3: makes id 260; the next new id is 258"),
        (b'{"op":"delete","id":97,"into":[1,2],"n":11}', "line 3: deletes id 97"),
        (b'{"op":"delete","id":257,"into":[97],"n":11}', r"line 3: .*length >= 2 - at `\$\.into`"),
    ],
)
def test_a_damaged_event_is_named(tmp_path, lines, line, message):
    """Each kind of nonsense on line 3 is reported as being on line 3."""
    lines[2] = line + b"\n"
    with pytest.raises(EventLogError, match=message):
        read_event_log(damaged(tmp_path, lines))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"version":1', b'"version":3', "line 1: version 3 of the format; this streambpe reads versions 1 and 2"),
        (b'"version":1', b'"version":2', "line 1: .*version 2 needs field `free`"),
        (b'"reserved":3', b'"reserved":3,"inherited":1', "line 1: .*version 1 has no field `inherited`"),
        (b'"format":"streambpe-events"', b'"format":"BoundlessBPE v2"', "line 1: not a streambpe event log"),
        (b'"reserved":3', b'"reserved":-3', r"line 1: .*Expected `int` >= 0 - at `\$\.reserved`"),
        (b'"reserved":3,', b"", "line 1: .*version 1 needs field `reserved`"),
        (b'"bytes":"206f66"', b'"bytes":"206f6"', "line 1: stop word 256: .*non-hexadecimal number"),
        (b'"bytes":"206f66"', b'"bytes":"20ff"', "line 1: stop word 256: .*'utf-8' codec can't decode byte 0xff"),
        (b'"bytes":"206f66"', b'"bytes":""', r"line 1: stop words: .*length >= 1 - at `\$\[0\]\.bytes"),
        (b'{"id":256,"bytes":"206f66"}', b'{"id":256,"bytes":"61"},{"id":257,"bytes":"61"}', "the same stop word"),
        (b'"id":260}', b'"id":260},{"text":"","id":261}', r"line 1: .*length >= 1 - at `\$\.specials"),
        (b'"id":260}', b'"id":260},{"text":"<s>","id":261},{"text":"<s>","id":262}', "the same special token"),
        (b'"id":256,', b'"id":255,', "line 1: stop words must be numbered from 256"),
        (b'"symbols":["00","01"', b'"symbols":["00","00"', "line 1: alphabet: .* lists a symbol twice"),
        (b'"symbols":["00","01"', b'"symbols":["00",""', "line 1: alphabet: .*b'', which is not one byte"),
        (b'{"kind":"bytes"', b'{"kind":"chars"', "line 1: alphabet: .*'utf-8' codec can't decode byte 0x80"),
        (b'"unk":null', b'"unk":"<UNK>"', "line 1: unk is '<UNK>', which is not one of the special tokens"),
        (b'"pattern":"gpt4o"', b'"pattern":["gpt4o"]', r"line 1: .*Expected `str`, got `array` - at `\$\.pattern`"),
        *(
            (b'"pattern":"gpt4o"', b'"pattern":"gpt4o",' + line, r"line 1: config: .* - at `\$\.")
            for line in (
                b'"normalize":"nfkc"',
                b'"split_scripts":0',
                b'"holes":-1',
                b'"batch":"2"',
                b'"seed":-1',
                b'"tau":"x"',
                b'"weights":{"a":"x"}',
                b'"optional":[1]',
            )
        ),
    ],
)
def test_a_damaged_header_is_named(tmp_path, lines, old, new, message):
    """Another version, another format and each broken field are refused on line 1."""
    assert old in lines[0]
    lines[0] = lines[0].replace(old, new)
    with pytest.raises(EventLogError, match=message):
        read_event_log(damaged(tmp_path, lines))


def test_a_field_of_config_that_nobody_knows_is_refused_unless_it_may_be_ignored(tmp_path, lines):
    """A newer version may say with it that ids are others; what it lists as optional is kept."""
    first, field = lines[0], b'"pattern":"gpt4o","sideways":true'
    lines[0] = first.replace(b'"pattern":"gpt4o"', field)
    with pytest.raises(EventLogError, match="line 1: this streambpe does not know what 'sideways' in config means"):
        read_event_log(damaged(tmp_path, lines))
    lines[0] = first.replace(b'"pattern":"gpt4o"', field + b',"optional":["sideways"]')
    assert read_event_log(damaged(tmp_path, lines)).header.config["sideways"] is True
