"""The reader in plain JavaScript against the Python encoder, in headless Chromium; what it refuses; the playground."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, UnknownSymbol
from streambpe.inspect.embedded import read_assets
from streambpe.inspect.playground import PlaygroundLeftOut, splitting
from streambpe.model.alphabet import Alphabet, bytes_alphabet, chars_alphabet, script_alphabet, seen_alphabet
from streambpe.model.eventlog import EventLog, FixedIds, Header, Special, log_lines
from streambpe.text.characters import every_character
from streambpe.text.dialects import Unsayable
from streambpe.text.javascript import CharacterClasses, translate
from streambpe.text.patterns import PRESETS
from streambpe.train.commands import train
from tests.inspect.browser import Browser, needs_chromium
from tests.runs import SMALL, cli, text_run
from tests.samples import natural_text
from tests.script_samples import LINES, hostile_texts
from tests.tiers import share
from tests.trained import DOCUMENTS, HOSTILE, KINDS, random_log, trained

pytestmark = needs_chromium
ENCODE = """(() => {
  const {log, how, texts, specials} = %s;
  const model = new StreambpeReader.Model(StreambpeReader.readLog(log), how);
  return texts.map(text => {
    try {
      const ids = model.encode(text, specials);
      return [ids, [...model.decode(ids)], model.splitter.split(text)];
    } catch (why) {
      if (why instanceof StreambpeReader.LogError) return null;
      throw why;
    }
  });
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Any:
    """A page that holds the reader and nothing else."""
    folder = tmp_path_factory.mktemp("reader")
    page = folder / "reader.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><script>\n{read_assets("reader.js")}</script>', "utf-8")
    with Browser(folder) as one:
        one.open(page.as_uri())
        yield one


def text_of(log: EventLog) -> str:
    """The log as its file has it."""
    return b"".join(log_lines(log)[0]).decode()


def in_python(tokenizer: Tokenizer, text: str, specials: bool = False) -> Any:
    """(ids, the bytes they stand for, chunks); None for a text that the model cannot encode."""
    try:
        ids = tokenizer.encode(text, allowed_special="all") if specials else tokenizer.encode_ordinary(text)
    except (UnknownSymbol, ModelError):
        return None
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return [ids, list(tokenizer.decode_bytes(ids)), tokenizer.encoder.split(whole)]


def assert_equal(browser: Browser, log: EventLog, texts: list[str], specials: bool = False) -> int:
    """The reader says of every text what Python says; returns how many of them could be encoded."""
    given = {"log": text_of(log), "how": splitting(log), "texts": texts, "specials": specials}
    found, tokenizer = browser.run(ENCODE % json.dumps(given)), Tokenizer(log)
    wanted = [in_python(tokenizer, text, specials) for text in texts]
    for text, ours, theirs in zip(texts, found, wanted, strict=True):
        assert ours == theirs, repr(text)
    return sum(one is not None for one in wanted)


def any_characters(seed: int, many: int) -> list[str]:
    """Texts of any characters of Unicode, with those that splits look at among them."""
    rng = random.Random(seed)
    often, every = " \n\r\t  aAbBzé'’sSſK1٣Ⅷ中あアー한ก\u0301\u200d.,;/_-\U0001f469\U0001f3fd\ufe0f", every_character()
    return [
        "".join(rng.choice(often if rng.random() < 0.6 else every) for _ in range(rng.randint(1, 40)))
        for _ in range(many)
    ]


@cache
def all_texts() -> list[str]:
    """What every model is asked for."""
    return [
        *HOSTILE, *DOCUMENTS[:5], *LINES, "\ud800a", "a\udc00\ud83d\ude00", "</script><img src=x onerror=alert(1)>",
        *any_characters(1, share(160)), *hostile_texts(2, share(80)),
    ]  # fmt: skip


@pytest.mark.every(6)
@pytest.mark.parametrize("kind", KINDS[1:] + KINDS[:1])
def test_every_kind_of_model_reads_the_same(browser, kind):
    """All systems, hostile texts and any characters: equal ids, bytes and chunks; special tokens too."""
    log = trained(kind)
    assert assert_equal(browser, log, all_texts()) > (30 if kind != "pairs" else 0)
    if log.header.specials:
        names = [special.text for special in log.header.specials]
        assert_equal(browser, log, [f"the{one}end {names[0]}{one}" for one in names], specials=True)


def untrained(alphabet: Alphabet, **config: Any) -> EventLog:
    """A log without events."""
    return EventLog(Header(alphabet.to_header(), {"pattern": "gpt2", **config}), ())


def script_log(**config: Any) -> EventLog:
    """SCRIPT's symbols, all of them or those of its table."""
    alphabet = script_alphabet("bytes" if config.get("unencodable", "bytes") == "bytes" else "drop")
    return untrained(alphabet, pattern="script", **config)


OTHERS = {
    "SCRIPT": script_log(),
    "SCRIPT, NFC": script_log(normalize="nfc"),
    "SCRIPT, dropping": script_log(normalize="nfc", unencodable="drop"),
    "SCRIPT, refusing": script_log(unencodable="error"),
    "characters": untrained(chars_alphabet("abcdeé 日")),
    "characters, dropping": untrained(chars_alphabet("abé 日"), unknown="drop"),
    "characters, unknown": EventLog(
        Header(chars_alphabet("abé 日").to_header(), {"pattern": "gpt2"}, unk="<u>", specials=(Special("<u>", 5),)), ()
    ),
    "bytes seen": untrained(seen_alphabet([b"the end"]), unknown="drop"),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", OTHERS)
def test_every_alphabet_reads_the_same(browser, name):
    """SCRIPT's symbols with what is done to text before, characters, and symbols that are not there."""
    assert assert_equal(browser, OTHERS[name], all_texts()) > 2


@pytest.mark.long
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_splits_the_same(browser, name):
    """With and without runs of scripts and numbers cut in another way."""
    for split_scripts in (False, True) if PRESETS[name].expression and not PRESETS[name].by_rules else (False,):
        config = {"pattern": name, "split_scripts": split_scripts, "digits": "right3" if split_scripts else "keep"}
        assert assert_equal(browser, untrained(bytes_alphabet(), **config), all_texts()) == len(all_texts())


def test_models_that_no_training_makes(browser):
    """Re-learned and re-deleted tokens, odd parts, superwords that undo the order."""
    rng = random.Random(5)
    for seed in range(share(120)):
        log = random_log(seed)
        texts = ["".join(rng.choice("aaabbbccc ..") for _ in range(rng.randint(1, 60))) for _ in range(30)]
        assert_equal(browser, log, [text.replace("..", ". .") for text in texts])


OWN = [
    r"\p{L}+(?:'\p{L}+)?|\p{N}{1,3}+|[^\s\p{L}\p{N}]++|\s+(?!\S)|\s",
    r"(?i:the|of|straße|ſ|k)\b|\w+?(?=\d|\b)|(?s:.)",
    r"(?>a+b?|[ab]+)c|(?<=c)[^a]|(?<!b)\d+|.|\n",
    r"^\s+|[a-zà-ÿ&&~~|-]{2,}$|(?:[\]\[]|\.)*+x|[^\n]|\n",
    r"\u0041\U0001F600?|/|-|\}|.|\s",
    r"(?:(?>ab|a)|x+?b{2,3}){2}|\p{Coptic}+|[\x41-\x5a]+(?=\Z)|(?:a|b)*?c|\W|\w",
]


@pytest.mark.every(5)
@pytest.mark.parametrize("expression", OWN)
def test_own_patterns_are_translated(browser, expression):
    """Possessive and atomic parts, case, ends, looking around: the same chunks, or a refusal."""
    log = untrained(bytes_alphabet(), pattern=expression, gaps="keep")
    texts = [*all_texts(), "THE Of\n", "straßE STRASSE ſK\u212a", "aabbc12cab3\n", "]x[.]x x$", "A😀A/-}", "abab\n\n"]
    try:
        splitting(log)
    except PlaygroundLeftOut as why:
        assert "(?s" in str(why) or "\\b" in str(why)  # noqa: PT017
        return
    assert assert_equal(browser, log, texts) == len(texts)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (r"(a)\1", r"\1"), (r"a*", "may be empty"), (r"(?:a?)+b", "may be empty"), (r"(?P<x>a)", "(?P"),
        (r"(?i:ß)", "case of 'ß'"), (r"\p{Nonsense}", "Nonsense"),
        (r"[[:alpha:]]+", "[:"), (r"(?V1)[a--b]", "(?V"), (r"\X|.", r"\X"), (r"(?<=a++)b", "look behind"),
        (r"(?:a){e<=1}", "{"), (r"\pL+", r"\p"), (r"a|\K", r"\K"), (r"(?|a|b)", "(?|"), (r"(?R)a", "(?R"),
    ],
)  # fmt: skip
def test_what_javascript_cannot_say_is_refused(expression, why):
    """Nothing is translated nearly."""
    with pytest.raises(Unsayable) as raised:
        translate(expression, CharacterClasses())
    assert why in str(raised.value)


def test_ids_that_are_fixed_are_those_of_python(browser):
    """Version 2: special tokens and ids of nothing between tokens."""
    log = trained("plain")
    fixed = FixedIds(len(log.events), ((20, 2), (200, 1)))
    specials = (Special("<s>", 0), Special("<|end|>", 199))
    log = EventLog(replace(log.header, specials=specials, reserved=3, fixed=fixed), log.events)
    assert assert_equal(browser, log, [*all_texts(), "a<s>b<|end|>"], specials=True) > 30


def test_a_damaged_log_is_refused(browser):
    """A cut file, another version, a wrong count, an event that makes another token."""
    text = text_of(trained("plain"))
    *lines, last = text.splitlines(keepends=True)
    newer, whole = text.replace('"version":1', '"version":2'), "".join(lines)
    damaged = [text[:-5], newer, whole, whole + last.replace('"id":', '"id":1')]
    how = json.dumps(splitting(trained("plain")))
    for one in damaged:
        assert browser.run(
            f"(() => {{ try {{ new StreambpeReader.Model(StreambpeReader.readLog({json.dumps(one)}), {how}); }}"
            f" catch (why) {{ return why instanceof StreambpeReader.LogError; }} }})()"
        )
    changed = json.dumps(text.replace('"n":', '"n":1'))
    for given, intact in ((json.dumps(text), True), (changed, False)):
        assert browser.run(f"StreambpeReader.isIntact(StreambpeReader.readLog({given}))") is intact


@pytest.mark.long
def test_the_playground_in_a_browser(tmp_path):
    """Typed text becomes its tokens, a chosen token shows its merges, by keys; nothing is complained of."""
    run = text_run(tmp_path / "run", natural_text(3, 30_000) + "</script><img src=x onerror=alert(1)> " * 40)
    train(run, resources=SMALL, vocab_size=700, special=("<|endoftext|>",))
    cli("report", run, "-o", tmp_path / "r.html")
    tokenizer = Tokenizer(run)
    with Browser(tmp_path) as browser:
        browser.open((tmp_path / "r.html").as_uri(), width=390)
        browser.wait_for("document.getElementById('playground').dataset.ready")
        text = "the end</script><img src=x onerror=alert(1)>\n<|endoftext|>é"
        browser.run(
            f"typed.value = {json.dumps(text)}; typed.dispatchEvent(new Event('input')); "
            "new Promise(done => setTimeout(done, 200))"
        )
        ids = tokenizer.encode(text, allowed_special="all")
        titles = browser.run("[...document.querySelectorAll('.piece')].map(piece => piece.title)")
        assert titles == [f"id {number}" for number in ids]
        assert browser.run("told.textContent").startswith(f"{len(ids)} tokens for {len(text.encode())} bytes")
        browser.run("document.querySelector('.piece').focus()")
        browser.press("End")
        browser.press("ArrowLeft")
        assert browser.run("document.activeElement.textContent") == "<|endoftext|>"
        assert "made by no event." in browser.run("steps.textContent")
        browser.press("Home")
        merges = browser.run(
            "[...document.querySelectorAll('#steps tbody tr')].map(row => row.children[3].textContent)"
        )
        learned = tokenizer.decode_single_token_bytes(ids[0]).decode()
        assert len(learned) > 1
        assert merges[-1] == learned
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.run("document.images.length") == 0
        assert browser.complaints == []
