"""What users name with -o: nothing is overwritten unasked, and ids say of what kind and model they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from pathlib import Path

import click
import numpy as np
import pytest
from msgspec.structs import replace

from streambpe import files
from streambpe.encode.corpus import _State
from streambpe.encode.sidecar import files_of
from streambpe.files import unfinished
from streambpe.train.commands import train
from tests.runs import EVERY_COMMAND, SMALL, cli, cli_killed, text_run
from tests.samples import CATS, written
from tests.uses import GOES_ON, LOOKS, MAKES_FILES, USES, words_of

MEMORY = ["--memory", "300MB"]


@pytest.fixture(scope="module")
def learned(desk) -> Path:
    """Beside what `desk` has: a larger training that goes on from the first, and one of other text."""
    train(desk / "run", resources=SMALL, name="large", vocab_size=275)
    text_run(desk / "lines", "".join(f"line {i}\n" for i in range(400)))  # for `converge`, which needs documents
    train(text_run(desk / "other", "nothing of it\n" * 30), resources=SMALL, vocab_size=265)
    return desk


# ---------------------------------------------------------------------------------------------------------
# of what kind ids are


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["auto", "uint16", "uint32", "int32", "int64"])
def test_a_bin_is_decoded_as_it_was_encoded(learned, tmp_path, dtype):
    """Whatever --dtype it was written with: decode used to guess, and printed garbage."""
    ids = tmp_path / "a.bin"
    cli("encode", learned / "run", learned / "a.txt", "-o", ids, "--dtype", dtype, *MEMORY)
    done = cli("decode", learned / "run", ids)
    assert (done.stdout, done.stderr) == (CATS, "")
    record = json.loads((tmp_path / "a.bin.json").read_text())
    assert record["dtype"] == ("uint16" if dtype == "auto" else dtype)
    assert record["ids"] * np.dtype(record["dtype"]).itemsize == ids.stat().st_size
    assert (record["documents"], record["n_vocab"], record["eot"]) == (1, 265, None)
    trained = [json.loads(line) for line in (learned / "run/model.events.jsonl").read_text().splitlines()]
    assert record["model_sha256"] == trained[0]["events"]["sha256"]


def test_a_bin_without_its_record_is_not_guessed(learned, tmp_path):
    """It is refused without --dtype; a --dtype that does not fit is refused by what stands beside it."""
    ids = tmp_path / "a.bin"
    cli("encode", learned / "run", learned / "a.txt", "-o", ids, "--dtype", "uint32", *MEMORY)
    (tmp_path / "a.bin.json").unlink()
    refused = cli("decode", learned / "run", ids, expect=2)
    assert refused.stdout == ""
    assert "--dtype" in refused.stderr
    assert cli("decode", learned / "run", ids, "--dtype", "uint32").stdout == CATS
    wrong = cli("decode", learned / "run", ids, "--dtype", "uint16", expect=1)
    assert wrong.stdout == ""
    assert "offsets" in wrong.stderr
    ids.write_bytes(ids.read_bytes()[:-1])
    assert "bytes" in cli("decode", learned / "run", ids, "--dtype", "uint16", expect=1).stderr


def test_a_bin_that_does_not_fit_its_record_is_refused(learned, tmp_path):
    """Cut, asked for otherwise, or with a record that is damaged."""
    ids = tmp_path / "a.bin"
    cli("encode", learned / "run", learned / "a.txt", "-o", ids, *MEMORY)
    assert "says uint16" in cli("decode", learned / "run", ids, "--dtype", "int32", expect=2).stderr
    whole = ids.read_bytes()
    ids.write_bytes(whole[:-2])
    assert "Was it cut" in cli("decode", learned / "run", ids, expect=1).stderr
    ids.write_bytes(whole)
    record = (tmp_path / "a.bin.json").read_text()
    for damaged in ("", "{}", "[]", record[:-5], record.replace("uint16", "float8"), record.replace("-ids", "-x")):
        (tmp_path / "a.bin.json").write_text(damaged)
        assert "a.bin.json" in cli("decode", learned / "run", ids, expect=1).stderr


def test_dtype_of_what_says_it_itself_is_refused(learned, tmp_path):
    """An option that cannot be honoured: --dtype for .npy, .parquet and text."""
    (tmp_path / "a.txt").write_text("1 2 3\n")
    for name in ("a.npy", "a.parquet"):
        cli("encode", learned / "run", learned / "a.txt", "-o", tmp_path / name, *MEMORY)
    for name in ("a.npy", "a.parquet", "a.txt"):
        assert "--dtype" in cli("decode", learned / "run", tmp_path / name, "--dtype", "uint16", expect=2).stderr
    cli("decode", learned / "run", tmp_path / "a.npy", "--dtype", "float64", expect=2)


@pytest.mark.parametrize("name", ["a.npy", "a.bin", "a.parquet"])
def test_decoding_with_another_model_is_told(learned, tmp_path, name):
    """On stderr, once; not if the other model only has more ids."""
    cli("encode", learned / "run", learned / "a.txt", "-o", tmp_path / name, *MEMORY)
    assert cli("decode", learned / "run:large", tmp_path / name).stderr == ""
    done = cli("decode", learned / "other", tmp_path / name, expect=None)
    assert done.stderr.count("was encoded with another model") == 1
    cli("encode", learned / "run:large", learned / "a.txt", "-o", tmp_path / f"large-{name}", *MEMORY)
    fewer = cli("decode", learned / "run", tmp_path / f"large-{name}", expect=None)
    assert fewer.stderr.count("was encoded with another model") == 1


def test_arrays_that_are_no_ids_are_refused(learned, tmp_path):
    """Floats, two dimensions, offsets of another file, negative ids: one message each."""
    ids = np.array([40, 41, 42], np.int32)
    for array, told in ((np.zeros(3), "float64"), (np.zeros((3, 3), np.int32), "dimensions"), (-ids, "a.npy")):
        np.save(tmp_path / "a.npy", array)
        assert told in cli("decode", learned / "run", tmp_path / "a.npy", expect=1).stderr
    np.save(tmp_path / "a.npy", ids)
    for offsets in ([0, 2], [0, 4], [1, 3], [0, 3, 2, 3], [[0, 3]], []):
        np.save(tmp_path / "a.npy.offsets.npy", np.array(offsets, np.int64))
        assert "offsets.npy" in cli("decode", learned / "run", tmp_path / "a.npy", expect=1).stderr
    (tmp_path / "none.bin.json").write_text("{}")
    assert "none.bin" in cli("decode", learned / "run", tmp_path / "none.bin", "--dtype", "uint16", expect=1).stderr


# ---------------------------------------------------------------------------------------------------------
# nothing is overwritten unasked


def arguments_of(name: str, learned: Path, folder: Path) -> list[str]:
    places = {"RUN": learned / "run", "TEXT": learned / "a.txt", "TOKENIZER": learned / "tokenizer.json"}
    return words_of(name, **places, HERE=folder, OUT=folder / "out")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", MAKES_FILES)
def test_an_output_that_is_there_is_kept_without_force(learned, tmp_path, name):
    """Each file of each command by itself is enough to refuse, before any work; --force makes what it should be."""
    arguments = arguments_of(name, learned, tmp_path / "made")
    (tmp_path / "made").mkdir()
    cli(*arguments)
    made = files_in(tmp_path / "made")
    assert made
    refused = cli(*arguments, expect=2)
    assert "--force" in refused.stderr
    assert refused.stdout == ""
    assert files_in(tmp_path / "made") == made
    cli(*arguments, "--force")
    assert files_in(tmp_path / "made").keys() == made.keys()
    for number, file in enumerate(made):
        folder = tmp_path / f"mine-{number}"
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text("mine")
        assert str(folder / file) in cli(*arguments_of(name, learned, folder), expect=2).stderr
        assert files_in(folder) == {file: b"mine"}
        cli(*arguments_of(name, learned, folder), "--force")
        assert files_in(folder).keys() == made.keys()
        assert (folder / file).read_bytes() != b"mine"
        shutil.rmtree(folder)
        (folder / file / "mine").mkdir(parents=True)
        told = cli(*arguments_of(name, learned, folder), "--force", expect=2).stderr
        assert "is a folder, not a file. Nothing was changed" in told
        assert [*folder.rglob("mine")] == [folder / file / "mine"]
        assert not files_in(folder)


@pytest.mark.long
def test_a_page_of_report_is_replaced_and_nothing_else(learned, tmp_path):
    """Its own pages; a page of somebody else's needs --force."""
    page = tmp_path / "report.html"
    arguments = ["report", learned / "run", "-o", page, *MEMORY]
    cli(*arguments)
    first = page.read_text()
    cli(*arguments)
    assert page.read_text() == first
    for mine in ("", "<!doctype html>\n<title>mine</title>", "the streambpe report", ": a vocabulary</title>"):
        page.write_text(mine)
        assert "--force" in cli(*arguments, expect=2).stderr
        assert page.read_text() == mine
    cli(*arguments, "--force")
    assert page.read_text() == first


READ = {"--config", "--must", "--balance-text", "--text", "--tokenizer", "--chat-template"}


def test_each_way_to_write_has_a_case():
    """Every command, and every option that names a file and is not known to be read."""
    ways = list(map(words_of, USES))
    assert EVERY_COMMAND.keys() == {words_of(use)[0] for use in USES | LOOKS}
    for name, command in EVERY_COMMAND.items():
        for option in [each for each in command.params if isinstance(each, click.Option)]:
            if re.search("FILE|OUT|LOG|PATH|DIR", option.metavar or "") and not READ & {*option.opts}:
                written = any(way[0] == name and {*option.opts} & {*way} for way in ways)
                assert written or option.opts == ["--temp-dir"], (name, option.opts)


def listing(folder: Path) -> dict[str, object]:
    """What each file holds and where each link leads, at any depth."""
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


def decoys(folder: Path, names: set[str], precious: Path) -> None:
    """Beside each of these names what a user, or another program, may call files and folders, and links to a file."""
    for name in names:
        for end in (".part", ".new", ".tmp", "~", ".lock", ".progress.json", ".offsets.part", ".wal"):
            (folder / f"{name}{end}").write_text("mine")
            (folder / f".{name}{end}").symlink_to(precious)
        (folder / f"{name}.tasks").mkdir()
        (folder / f"{name}.tasks" / "mine").write_text("mine")
        (folder / f".{name}.streambpe.new").symlink_to(precious)
        (folder / f".{name}-{socket.gethostname()}-{os.getpid()}-0.streambpe.new").symlink_to(precious)
        files.own_name(folder, f".{name}", ".streambpe.new").symlink_to(precious)  # of this process, which lives


@pytest.mark.every(7)
@pytest.mark.parametrize("name", USES)
def test_nothing_that_was_there_is_touched(learned, tmp_path, name):
    """Whatever it is called: half a download, a folder of tasks, a .new, links to what is precious; in the folder of
    the output, and in the one of --temp-dir."""
    if name == "export-gguf":
        pytest.importorskip("gguf")
    clean, folder, precious = tmp_path / "clean", tmp_path / "made", written(tmp_path / "precious", "precious")
    for place in (clean, folder):
        place.mkdir()
        if name in GOES_ON:
            shutil.copytree(learned / ("lines" if name == "converge" else "run"), place / "out")
    cli(*arguments_of(name, learned, clean))
    made = {path.name for path in clean.iterdir()}
    decoys(folder, {*made, "out", "out.bin"}, precious)
    if name.startswith("encode"):  # has to find a folder of this name again
        kept = folder / f".out{Path(words_of(name)[4]).suffix}.streambpe.new"
        for what in ("link", "mine", "progress.json"):
            if what != "link":
                shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
                (kept / what).mkdir(parents=True)
            before = listing(folder)
            refused = cli(*arguments_of(name, learned, folder), expect=None)
            assert refused.returncode in (1, 2), refused
            assert "changed" in refused.stderr
            assert listing(folder) == before
        shutil.rmtree(kept)
    before = listing(folder)
    cli(*arguments_of(name, learned, folder))
    after = {path: held for path, held in listing(folder).items() if path.split("/")[0] not in made}
    assert after == {path: held for path, held in before.items() if path.split("/")[0] not in made}
    assert {path.name for path in folder.iterdir()} == {path.split("/")[0] for path in before} | made
    assert precious.read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="links are others there")
def test_what_becomes_of_links(learned, tmp_path):
    """Of two names of one file only the one that is given gets what is written; a link to nothing makes what it names,
    and a link to itself is no place for a file."""
    one, other, link, loop = (tmp_path / name for name in ("one.csv", "other.csv", "link.csv", "loop.csv"))
    one.write_text("mine")
    other.hardlink_to(one)
    link.symlink_to("new.csv")
    (null := tmp_path / "null.csv").symlink_to("/dev/null")  # is there already, and loses nothing
    loop.symlink_to(loop)
    write = ["sql", learned / "run", "FROM run", "--force", "-o"]
    cli(*write[:3], "-o", null)
    cli(*write, other)
    cli(*write, link)
    assert one.read_text() == "mine"
    assert other.read_bytes() == (tmp_path / "new.csv").read_bytes() != b"mine"
    assert link.is_symlink()
    assert null.is_symlink()
    assert "loop.csv cannot be written" in cli(*write, loop, expect=2).stderr
    assert loop.is_symlink()
    for place in filter(os.path.isdir, ["/sys", "/proc"]):  # where nobody may write
        assert f"{place}/a.csv cannot be written" in cli(*write, f"{place}/a.csv", expect=1).stderr


@pytest.mark.skipif(os.name == "nt", reason="links and modes are others there")
def test_a_link_that_is_given_as_output_stays_one(learned, tmp_path):
    """--force replaces what the file holds that it names; the file keeps its mode."""
    (tmp_path / "kept").mkdir()
    target, link = written(tmp_path / "kept" / "old", "old"), tmp_path / "out.bin"
    target.chmod(0o640)
    link.symlink_to(target)
    cli(*arguments_of("encode-bin", learned, tmp_path), "--force")
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in target.parent.iterdir()] == [target.name]
    assert cli("decode", learned / "run", link).stdout == CATS


@pytest.mark.long
def test_a_half_encoding_does_not_take_another_file_for_its_own(learned, tmp_path):
    """OUT that came into being while the job was stopped is kept."""
    output = tmp_path / "ids.npy"
    encode = ["encode", learned / "run", learned / "a.txt", *MEMORY, "-o", output]
    cli_killed("encoded-beside", *encode)
    progress = unfinished(output) / "progress.json"
    state = _State.read(progress)
    replace(state, finishing=False).write(progress)
    for beside in files_of(output)[1:]:
        beside.unlink()
    output.write_text("mine")
    assert "--force" in cli(*encode, expect=2).stderr
    assert output.read_text() == "mine"
    output.unlink()
    cli(*encode)
    assert sorted(os.listdir(tmp_path)) == ["ids.npy", "ids.npy.json", "ids.npy.offsets.npy"]
