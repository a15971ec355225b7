"""Sources on web servers and in object stores: they count as files do, go on after a kill, and fail in a sentence."""

from __future__ import annotations

import contextlib
import glob
import gzip
import hashlib
import itertools
import json
import logging
import os
import random
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore

from streambpe.errors import SourceChanged, SourceError, SourceUnreachable, UsageError
from streambpe.sources.find import find_sources
from streambpe.sources.remote import hub, place, stores
from streambpe.sources.remote.address import checked
from streambpe.sources.remote.place import in_glob
from streambpe.sources.streams import look_at, open_file
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.counting.count import count, resume_count
from tests.runs import SMALL, cli, small_blocks
from tests.samples import natural_text, written
from tests.sources.test_sources import zstd
from tests.tiers import long, seeds
from tests.web_server import Asked, Server, web_server

TEXT = natural_text(7, 30_000)
LINES = TEXT.splitlines()


def _jsonl(field: str) -> bytes:
    return "".join(json.dumps({field: line}) + "\n" for line in LINES).encode()


def _parquet() -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(len(LINES)), "text": LINES}), out, row_group_size=200)
    return out.getvalue().to_pybytes()


FILES = {
    "a.txt": TEXT.encode(),
    "b.jsonl": _jsonl("text"),
    "c.jsonl.gz": gzip.compress(_jsonl("body")),
    "d.jsonl.zst": zstd.compress(_jsonl("text")),
    "e.parquet": _parquet(),
    "f.csv": b"text\n" + "".join(f'"{line.replace(chr(34), "")}"\n' for line in LINES).encode(),
    "empty.txt": b"",
}
COMPRESSED = {"Content-Range": "bytes 0-0/100", "Content-Encoding": "gzip"}
FIELDS = {"c.jsonl.gz": ":body"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nobody waits between two tries, and no proxy or login of this machine is used."""
    monkeypatch.setattr(place, "WAIT", 0.001)
    monkeypatch.setenv("NETRC", os.devnull)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def log_in(folder: Path, monkeypatch, entries: str = "machine 127.0.0.1 login me password hush-hush") -> None:
    """Have ~/.netrc hold these."""
    (folder / "netrc").write_text(entries)
    monkeypatch.setenv("NETRC", str(folder / "netrc"))


@pytest.fixture
def server() -> Iterator[Server]:
    with web_server() as made:
        made.files = {f"/{name}": data for name, data in FILES.items()}
        yield made


@pytest.fixture(scope="module")
def put() -> Iterator[Callable[[str, bytes], None]]:
    """Puts data under a key into the bucket `bucket` of a store that runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "hush-hush")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        import boto3
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        moto.start()
        endpoint = f"http://127.0.0.1:{moto.get_host_and_port()[1]}"
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="bucket")

        def put(key: str, data: bytes) -> None:
            client.put_object(Bucket="bucket", Key=key, Body=data)

        for name, data in FILES.items():
            put(f"corpus/{name}", data)
        yield put
        moto.stop()
        stores._s3.cache_clear()


def served(data: bytes, server: Server, put: Callable[[str, bytes], None]) -> tuple[str, str]:
    """A file with these bytes at a web server and in a store."""
    server.files["/r.txt"] = data
    put("r.txt", data)
    return server.url("/r.txt"), "s3://bucket/r.txt"


def here(folder: Path) -> Path:
    """The files on this machine."""
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def counts_of(run: Path) -> tuple[str, int]:
    facts = json.loads(Run(run).facts()["corpus"])
    return facts["sha256"], facts["documents"]


def counted(run: Path, sources: list[str], **more: object) -> tuple[str, int]:
    count(run, sources, resources=SMALL, **more)
    return counts_of(run)


def named(base: str, name: str) -> str:
    return f"{base}/{name}{FIELDS.get(name, '')}"


# ---------------------------------------------------------------------------------------------------------
# the same counts


def test_addresses_count_as_their_files(tmp_path, server, put):
    """Every format, from a web server and from a store: the same counts, and the same digests of each source."""
    local = here(tmp_path / "files")
    found = []
    for base in (str(local), server.url(""), "s3://bucket/corpus"):
        run = tmp_path / str(len(found))
        counts = counted(run, [named(base, name) for name in FILES])
        spans = [(Path(s.path).name, s.start_at, s.stop_at, s.digest) for s in list_parts(Run(run)).spans]
        found.append((counts, sorted(spans)))
    assert found[0] == found[1] == found[2]
    assert {name for name, *_ in found[0][1]} == FILES.keys()


def test_folders_and_globs_of_a_store_are_listed_in_order(put):
    """As for folders here: what no source is named like is left out, subfolders are looked into."""
    put("tree/b/two.txt", b"two")
    put("tree/b/notes.bin", b"no text")
    put("tree/b/.hidden.txt", b"hidden")
    put("tree/a.txt", b"one")
    put("tree/c/d/e.jsonl", b'{"text": "three"}')

    def names(argument: str) -> list[str]:
        return [source.path.removeprefix("s3://bucket/tree/") for source in find_sources([argument])[0]]

    assert names("s3://bucket/tree") == names("s3://bucket/tree/") == [
        "a.txt", "b/.hidden.txt", "b/two.txt", "c/d/e.jsonl"
    ]  # fmt: skip
    assert names("s3://bucket/tree/*/*") == ["b/notes.bin", "b/two.txt"]
    assert names("s3://bucket/tree/**/*.txt") == ["a.txt", "b/two.txt"]
    assert names("s3://bucket/tree/[ac].t?t") == ["a.txt"]
    put("other/notes.bin", b"")
    for address, told in (
        ("s3://bucket/tree/*.csv", r"No file matches s3://bucket/tree/\*\.csv"),
        ("s3://bucket/other", "folder without sources"),
        ("s3://bucket/nothing", "does not exist"),
        ("s3://no-such-bucket/a.txt", "does not exist"),
        ("s3://b*/a.txt", "Name one bucket"),
    ):
        with pytest.raises((SourceError, UsageError), match=told):
            names(address)


@pytest.mark.parametrize(
    ("bucket", "maker"),
    [
        ("gs://bucket", "_google"),
        ("gs://anonymous@bucket", "_google"),
        ("s3://anonymous@bucket", "_s3"),
        ("abfss://bucket@account.dfs.core.windows.net", "_azure"),
    ],
)
def test_what_a_store_lists_can_be_opened(tmp_path, monkeypatch, bucket, maker):
    """The names of each kind of store, with a folder here in the store's place."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.txt").write_text("text")
    monkeypatch.setattr(stores, maker, lambda *_: LocalStore(tmp_path))
    for address in (bucket, f"{bucket}/a", f"{bucket}/a/", f"{bucket}/*/b.*", f"{bucket}/a/b.txt"):
        (source,), _ = find_sources([address])
        assert source.path == f"{bucket}/a/b.txt"
        assert look_at(source.path) == (source.bytes, source.mtime_ns)
        with open_file(source) as stream:
            assert stream.read() == b"text"


@pytest.mark.parametrize("seed", seeds(40))
def test_globs_match_as_those_of_folders(tmp_path, seed):
    """The judge: glob.glob on the same tree."""
    rng = random.Random(seed)
    names = {"/".join(rng.choices(["a", "b", ".c", "ab.txt", "x"], k=rng.randint(1, 3))) for _ in range(8)}
    for name in sorted(names):
        with contextlib.suppress(OSError):  # a file where a folder is, or the other way round
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    for _ in range(20):
        pattern = "/".join(rng.choices(["*", "a", "?", "**", "[ab]", "*.txt", ".*", "x"], k=rng.randint(1, 3)))
        found = glob.glob(pattern, root_dir=tmp_path, recursive=True)
        assert [path for path in files if in_glob(path, pattern)] == sorted({*files} & {*found}), pattern


# ---------------------------------------------------------------------------------------------------------
# kills, and going on


def is_refused(run: Path, address: str) -> None:
    """It is another file than the one that was counted."""
    with pytest.raises(SourceChanged, match="has changed since it was counted"):
        count(run, [address], resources=SMALL)


@pytest.mark.parametrize("has_marks", [True, long(False)])
def test_what_changed_at_the_server_is_refused(tmp_path, server, put, has_marks):
    """Of the same size or another, also where only the content tells; an unchanged file with another mark is read
    again, and counts as what it is."""
    server.has_marks = has_marks
    run, address = tmp_path / "run", server.url("/a.txt")
    want = counted(run, [address])
    for other in (FILES["a.txt"].replace(b"e", b"i", 1), FILES["a.txt"] + b"more"):
        server.files["/a.txt"] = other
        is_refused(run, address)
    server.files["/a.txt"] = FILES["a.txt"]
    assert counted(run, [address]) == want
    put("changing.txt", FILES["a.txt"])
    counted(tmp_path / "s3", ["s3://bucket/changing.txt"])
    put("changing.txt", FILES["a.txt"] + b"more")
    is_refused(tmp_path / "s3", "s3://bucket/changing.txt")


def test_what_changes_while_it_is_read_is_told(server, put, monkeypatch):
    """No bytes of the new content are given on."""
    monkeypatch.setattr(place, "BUFFER_BYTES", 50_000)
    data = random.Random(5).randbytes(200_000)
    for address in served(data, server, put):
        served(data, server, put)
        (source,), _ = find_sources([address])
        with open_file(source) as stream:
            assert stream.read(1000) == data[:1000]
            served(bytes(len(data)), server, put)
            stream.seek(170_000)
            with pytest.raises(SourceChanged, match="changed on its server while it was read"):
                stream.read(1000)


# ---------------------------------------------------------------------------------------------------------
# servers that misbehave


def _every_second(status: int):
    turns = itertools.cycle([True, False])
    return lambda asked: next(turns) and asked.answer(status)


def _cuts(asked: Asked) -> bool | None:
    """Most answers of more than a few bytes break off somewhere."""
    server: Server = asked.server
    data = server.files[asked.path]
    begin, end = asked.asked_range(len(data))
    if end - begin < 1000 or random.random() < 0.4:
        return False
    head = {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}", **asked.mark(data)}
    return asked.answer(206, data[begin:end], head, cut=(end - begin) * 2 // 3)


@pytest.mark.parametrize(
    ("name", "mood"),
    [
        ("a.txt", _cuts),
        ("e.parquet", _every_second(503)),
        *(long(name, mood) for name in ("c.jsonl.gz", "e.parquet") for mood in (_cuts, _every_second(429))),
    ],
)
def test_what_a_server_gives_at_another_try_is_taken(tmp_path, server, name, mood):
    """Answers that break off and servers that are busy now and then do not show in the counts."""
    server.mood = mood
    found = counted(tmp_path / "web", [named(server.url(""), name)])
    assert found == counted(tmp_path / "local", [named(str(here(tmp_path / "files")), name)])


def _status(number: int):
    return lambda asked: asked.answer(number)


def _hang_up(asked: Asked) -> None:
    asked.connection.close()
    asked.close_connection = True


def _wrong_range(asked: Asked) -> bool | None:
    data = asked.server.files[asked.path]
    begin, end = asked.asked_range(len(data))
    if end - begin == 1:
        return False
    return asked.answer(206, data[7:107], {"Content-Range": f"bytes 7-106/{len(data)}", **asked.mark(data)})


def _sends_to(location: str):
    return lambda asked: asked.answer(302, b"", {"Location": location})


@pytest.mark.parametrize(
    ("mood", "told"),
    [
        (_sends_to("ftp://127.0.0.1/a.txt"), "its server redirects to no https address"),
        (_status(503), "its server answers 503 Service Unavailable, after 3 tries"),
        (_status(404), "a.txt does not exist."),
        (_status(403), "cannot be read: its server answers 403 Forbidden. None of it was read. Credentials come"),
        (_status(418), "cannot be read: its server answers 418"),
        (lambda asked: asked.answer(200, asked.server.files[asked.path]), "its server does not serve ranges of a file"),
        (_hang_up, "the answer is incomplete, after 3 tries"),
        (_wrong_range, "its server answers with another range"),
        (lambda asked: asked.answer(206, b"x", COMPRESSED), "its server compresses it"),
        (lambda asked: _sends_to(asked.path + "x")(asked), "redirects without end"),
    ],
)
def test_a_server_that_misbehaves_is_told_in_a_sentence(tmp_path, server, mood, told):
    """On the command line, with an exit code and no traceback."""
    server.mood = mood
    done = cli("train", tmp_path / "run", server.url("/a.txt"), "--memory", "400MB", expect=1)
    assert told in done.stderr
    assert (tmp_path / "run").exists() == (mood is _wrong_range), "the others are found out before anything is made"


@pytest.mark.long
def test_a_stop_ends_the_wait_for_another_try(tmp_path, server, monkeypatch):
    """At once: what was read is kept, and the count goes on without it, with the counts of the file."""
    small_blocks(monkeypatch, 50_000)
    monkeypatch.setattr(place, "BUFFER_BYTES", 50_000)
    monkeypatch.setattr(place, "WAIT", 1000.0)
    data = natural_text(11, 1_500_000).encode()
    run, address, timers = tmp_path / "run", server.url("/big.txt"), []
    server.files["/big.txt"] = data

    def busy_behind_a_place(asked: Asked) -> bool | None:
        if asked.asked_range(1 << 40)[0] < 1_250_000:
            return False
        if not timers:  # once the few tries of the library are over
            timers.append(threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)))
            timers[0].start()
        return _status(503)(asked)

    server.mood = busy_behind_a_place
    told = cli("count", run, address, "--lines", "--memory", "400MB", expect=130).stderr
    assert "everything counted so far is kept" in told
    done = sum(span.stop_at - span.start_at for span in list_parts(Run(run)).spans)
    assert 0 < done < len(data)
    server.mood = None
    server.asked.clear()
    assert resume_count(run, resources=SMALL).counted == 1
    assert server.sent("/big.txt") <= len(data) - done + 2 * place.BUFFER_BYTES  # filled behind what was wanted
    assert counts_of(run) == counted(tmp_path / "local", [str(written(tmp_path / "big.txt", data))], lines=True)
    cli("check", run, "--sources")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("error performing GET http://metadata.google.internal/token", "Credentials come from GOOGLE_APPLICATION"),
        ("words " * 200, "words words ..; "),
        ("HTTP error at https://a.example/x?sig=hush Debug", "HTTP error at https://a.example/x Debug; "),
    ],
)
def test_what_a_store_says_is_told_without_what_may_be_a_secret(said, told):
    assert told in f"{stores._explained('gs://bucket/a.txt', GenericError(said))}; "


@pytest.mark.long
def test_servers_that_are_not_there(tmp_path, server):
    """No such name, nobody listening, a certificate of nobody known."""
    with socket.socket() as taken, web_server(_certificate(tmp_path)) as secure:
        taken.bind(("127.0.0.1", 0))
        for address, kind, told in (
            (f"http://127.0.0.1:{taken.getsockname()[1]}/a.txt", SourceUnreachable, "server: Connection refused"),
            ("https://no-such-host.invalid/a.txt", SourceUnreachable, r"its server has no known address \(DNS\)"),
            (secure.url("/a.txt"), SourceError, "the certificate of its server is not trusted"),
            (server.url("/a.txt").replace("http:", "https:"), SourceError, "its server does not speak TLS properly"),
        ):
            with pytest.raises(kind, match=told):
                look_at(address)


def _certificate(folder: Path) -> str:
    """A certificate that nobody signed, with its key."""
    path = folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-keyout", folder / "key.pem", "-out", path],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + (folder / "key.pem").read_bytes())
    return str(path)


# ---------------------------------------------------------------------------------------------------------
# secrets


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:sEsAmE@host.example/a.txt", "https://...@host.example/a.txt names a user"),
        ("s3://AKIA:sEsAmE@bucket/a.txt", "s3://...@bucket/a.txt names a user"),
        ("hf://sEsAmE@datasets/a/b/c.txt", "names a user"),
        ("abfss://box:sEsAmE@account.dfs.core.windows.net/a.txt", "names a user"),
        ("https://host.example/a.txt?X-Amz-Signature=sEsAmE", "https://host.example/a.txt has a ? or #"),
        ("https://host.example/a.txt#sEsAmE", "has a ? or #"),
        ("s3://bucket/a.txt?access_key=sEsAmE", "has a ? or #"),
        ("ftp://me:sEsAmE@host/a.txt", "ftp:// is not a kind of address that streambpe reads"),
        ("https:///a.txt", "names no server"),
        ("https://host:port/a.txt", "names no server"),
    ],
)
def test_what_may_be_a_secret_is_refused_before_anything_is_written(tmp_path, address, shown):
    """By every command that takes sources; and the message does not show it either."""
    run = tmp_path / "run"
    for command in (["count", run, address], ["train", run, address], ["count", address, "x.txt"]):
        done = cli(*command, expect=2)
        assert shown in done.stderr or "RUN is an address" in done.stderr
        assert "sEsAmE" not in done.stderr + done.stdout
    assert not any("sEsAmE" in path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert not run.exists()


def test_azure_without_credentials_says_where_they_come_from(tmp_path, monkeypatch):
    """One message, and no RUN."""
    for name in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")  # no `az` that asks the network
    done = cli("count", tmp_path / "run", "abfss://box@account.dfs.core.windows.net/a.txt", expect=1)
    assert "Credentials come from AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or `az login`." in done.stderr
    assert not (tmp_path / "run").exists()


def test_credentials_stay_out_of_what_is_written(tmp_path, server, put, monkeypatch):
    """Keys of the environment and of ~/.netrc are used, and no file of the run or line of output has them."""
    log_in(tmp_path, monkeypatch)
    run, sources = tmp_path / "run", (server.url("/a.txt"), "s3://bucket/corpus/b.jsonl")
    done = cli("train", run, *sources, "--vocab-size", 400, "--memory", "400MB")
    assert server.headers[-1]["authorization"] == "Basic bWU6aHVzaC1odXNo"
    for secret in (b"hush-hush", b"bWU6aHVzaC1odXNo"):
        assert not [path for path in run.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert "hush" not in done.stdout + done.stderr


def test_credentials_do_not_follow_to_another_server(tmp_path, server, monkeypatch):
    """What a server sends on to is asked without them."""
    log_in(tmp_path, monkeypatch)
    with web_server() as first:
        first.mood = _sends_to(server.url("/a.txt?sig=xyz"))
        server.files["/a.txt?sig=xyz"] = FILES["a.txt"]
        assert look_at(first.url("/a.txt"))[0] == len(FILES["a.txt"])
        assert "authorization" in first.headers[-1]
        assert "authorization" not in server.headers[-1]


def test_a_proxy_with_a_password_is_logged_in_to(server, monkeypatch):
    """It was not told the password; what it answered then was blamed on ~/.netrc. No message shows the password."""
    monkeypatch.setenv("http_proxy", server.url("").replace("//", "//me:hush%2Dhush@"))
    server.files["http://a.example/a.txt"] = FILES["a.txt"]
    assert look_at("http://a.example/a.txt")[0] == len(FILES["a.txt"])
    assert server.headers[-1]["proxy-authorization"] == "Basic bWU6aHVzaC1odXNo"
    server.mood = _status(407)
    with pytest.raises(SourceError, match="the proxy answers 407") as told:
        look_at("http://a.example/a.txt")
    assert "hush" not in str(told.value)


def test_passwords_go_to_hosts_that_netrc_names_and_not_in_the_clear(tmp_path, monkeypatch):
    """The `default` entry went to every host that a source named, and passwords over plain http."""
    log_in(tmp_path, monkeypatch, "machine a.example login me password hush\ndefault login me password hush\n")
    assert stores._login("https://a.example/x") == "Basic bWU6aHVzaA=="
    assert stores._login("http://a.example/x") is stores._login("https://b.example/x") is None


def test_an_address_has_one_form_and_a_web_server_lists_nothing(server):
    """Named twice, it is counted once. A folder or a glob of a web server is refused."""
    assert checked("HTTPS://Host.Example/A.txt") == "https://host.example/A.txt"
    found, warnings = find_sources([server.url("/a.txt"), server.url("/a.txt").replace("http", "HTTP")])
    assert len(found) == 1
    assert "named more than once" in warnings[0]
    for address in (server.url("/"), server.url("/*.txt"), server.url("/a?.txt".replace("?", "[bc]"))):
        with pytest.raises(UsageError, match="does not list its files"):
            find_sources([address])


# ---------------------------------------------------------------------------------------------------------
# the Hub


class Repository:
    """A repository of the Hub, as far as it is asked for: a mood of a web server."""

    def __init__(self, server: Server, files: dict[str, bytes]) -> None:
        self.commit = "a" * 40
        self.files = files
        self.tokens: list[str | None] = []
        server.mood = self
        server.files = {f"/datasets/me/texts/resolve/{self.commit}/{path}": data for path, data in files.items()}

    def __call__(self, asked: Asked) -> bool | None:
        if "/datasets/" in asked.path:  # the library also asks for things of its own
            self.tokens.append(asked.headers.get("Authorization"))
        path = asked.path.partition("?")[0]
        base = "/api/datasets/me/texts"
        if path in (base, f"{base}/revision/main"):
            return self._json(asked, {"id": "me/texts", "sha": self.commit, "siblings": []})
        if path == f"{base}/paths-info/{self.commit}":
            wanted = re.findall(r"paths=([^&]*)", asked.body.decode()) or json.loads(asked.body)["paths"]
            wanted = [wanted] if isinstance(wanted, str) else wanted
            return self._json(asked, [self._info(name) for name in self.files if name in map(unquote, wanted)])
        if path.startswith(f"{base}/tree/{self.commit}"):
            folder = unquote(path.removeprefix(f"{base}/tree/{self.commit}")).strip("/")
            return self._json(asked, [self._info(name) for name in self.files if name.startswith(folder)])
        if path.startswith("/api"):
            return asked.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        return False

    def _info(self, name: str) -> dict[str, object]:
        data = self.files[name]
        return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}

    def _json(self, asked: Asked, value: object) -> None:
        asked.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def test_the_hub(tmp_path, server, monkeypatch):
    """Listed, read, refused when it changed; a token is sent and not written."""
    monkeypatch.setenv("HF_ENDPOINT", server.url(""))
    monkeypatch.setenv("HF_TOKEN", "hf_hush")
    hub._api.cache_clear()
    files = {f"data/{name}": data for name, data in FILES.items()}
    repository = Repository(server, {**files, "README.bin": b""})
    local = here(tmp_path / "files")
    want = counted(tmp_path / "local", [str(local / "a.txt"), str(local / "e.parquet")])
    run, base = tmp_path / "run", "hf://datasets/me/texts"
    assert counted(run, [f"{base}/data/a.txt", f"{base}@main/data/e.parquet"]) == want
    assert set(repository.tokens) == {"Bearer hf_hush"}
    assert not any(b"hf_hush" in path.read_bytes() for path in run.rglob("*") if path.is_file())
    names = [f"{base}/data/{name}" for name in sorted(FILES)]
    for address, found in ((base, names), (f"{base}/data/", names), (f"{base}/*/[ab].*", names[:2])):
        assert [source.path for source in find_sources([address])[0]] == found
    repository.files["data/a.txt"] = FILES["a.txt"] + b"more"
    is_refused(run, f"{base}/data/a.txt")
    for address in (f"{base}/nothing.txt", "hf://datasets/me/nothing/a.txt"):
        with pytest.raises(SourceError, match="does not exist"):
            find_sources([address])
    with pytest.raises(UsageError, match="write hf://datasets/OWNER/NAME/PATH"):
        find_sources(["hf://datasets/me"])
    server.mood = _status(403)
    with pytest.raises(SourceError, match="cannot be read or does not exist: the Hub answers 403"):
        find_sources([f"{base}/data/a.txt"])
    hub._api.cache_clear()


# ---------------------------------------------------------------------------------------------------------
# every command


@pytest.mark.long
def test_every_command_that_reads_sources_takes_addresses(tmp_path, server, put):
    """plan, train, evaluate, encode, check and so on, with the results that files have."""
    local, made = here(tmp_path / "files"), {}
    for base in (str(local), server.url(""), "s3://bucket/corpus"):
        run, text = tmp_path / str(len(made)), f"{base}/b.jsonl"
        cli("train", run, f"{base}/a.txt", f"{base}/e.parquet", "--vocab-size", 600, "--memory", "400MB")
        cli("encode", run, text, "-o", run / "ids.bin", "--memory", "400MB")
        told = [cli("evaluate", run, "--text", text, "--csv"), cli("check", run, "--sources")]
        logs = [(run / name).read_bytes() for name in ("model.events.jsonl", "ids.bin")]
        made[base] = [done.stdout.replace(base, "").replace(str(run), "") for done in told], logs
    assert len(made) == 3
    assert all(found == made[str(local)] for found in made.values())
    server.files["/a.txt"] = FILES["a.txt"].replace(b"e", b"i", 1)
    assert "is not what was counted" in cli("check", tmp_path / "1", "--sources", expect=1).stdout
