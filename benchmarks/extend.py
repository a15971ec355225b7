"""50 257 ids, learned from English by `tokenizers` in the form of GPT-2's, extended by 8 000 on other text.

    python benchmarks/extend.py --old en_100.txt.zst --new multi_60.txt.zst --memory 1GB --runs 3

Every tenth line of the new text is held out. All contenders read the others, each a document, with the pattern gpt2:

streambpe        `train --extend old.json --vocab-size 58257` into a fresh RUN: counts, encodes, learns
streambpe-anew   `train --as old.json --vocab-size 58257`: as many ids, learned from nothing
bpe-continue     continue_training of the same file on the same documents (texts=), then save
bpe-continue-files  the same from the file itself (files=), which it streams; its documents are other pieces

streambpe and bpe-continue must learn the same merges (fact `learned`, a digest of all that come behind the old ones).
The extended vocabulary is then written by `export --to hf --onto old.json` and looked at: whether every old token has
its id (`old_ids`), whether `transformers` loads it and gives the ids of `streambpe` on held-out lines, and the bytes
per token of each language before, after, and anew: results/NAME-languages.tsv. The script that most letters of a line
are of stands for its language, which the text does not say; English is the end of the old text.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from corpora import hold_out, prepare
from harness import COMPARING, Contender, ask, call, compare, parser, scratch, streambpe, there, write_table
from peers import read_documents
from script import bytes_per_token, grouped

from streambpe.encode.formats.export import export
from streambpe.encode.formats.hf import import_hf
from streambpe.encode.tokenizer import Tokenizer
from streambpe.model.eventlog import read_event_log

_HELD_OUT = 10
END = "<|endoftext|>"


def train_old(path: str, kind: str, vocab_size: int, out: str) -> None:
    """A tokenizer.json as GPT-2's is."""
    from tokenizers import Tokenizer as Theirs
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Theirs(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=0,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    documents = read_documents(path, kind)
    tokenizer.train_from_iterator(iter(lambda: list(islice(documents, 256)), []), trainer)
    tokenizer.add_special_tokens([END])
    tokenizer.save(out)


def continue_theirs(old: str, path: str, kind: str, vocab_size: int, out: str, files: bool = False) -> None:
    """bpe-continue, from documents or from the file."""
    import bpe_continue

    how: dict[str, Any] = {"files": path} if files else {"texts": read_documents(path, kind)}
    bpe_continue.continue_training(old, vocab_size=vocab_size, show_progress=False, **how).save(out)


def digest_of(merges: list[list[str]], known: int) -> str:
    """Of all merges behind the first ones."""
    return hashlib.sha256(json.dumps(merges[known:]).encode()).hexdigest()[:16]


def extended(out: Path, old: Path, work: Path) -> Mapping[str, Any]:
    """Facts of an extended RUN; its export stays in `work`."""
    export(str(out), "hf", work / "extended.json", onto=old, force=True)
    return facts_of(work / "extended.json", old)


def facts_of(new: Path, old: Path) -> Mapping[str, Any]:
    """Facts of an extended tokenizer.json."""
    before, after = (json.loads(path.read_text(encoding="utf-8"))["model"] for path in (old, new))
    kept = before["vocab"].items() <= after["vocab"].items()
    return {
        "ids": len(after["vocab"]) + (END not in after["vocab"]),
        "learned": digest_of(after["merges"], len(before["merges"])),
        "old_ids": "kept" if kept else "CHANGED",
    }


def in_transformers(path: Path, tokenizer: Tokenizer, lines: list[str]) -> str:
    """Whether transformers loads the file and encodes these lines as streambpe does."""
    if not there("transformers"):
        return "transformers is not installed"
    import transformers

    loaded = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    same = sum(loaded.encode(line) == tokenizer.encode_ordinary(line) for line in lines)
    return f"transformers {transformers.__version__} loads it; {same:,} of {len(lines):,} held-out lines have equal ids"


def main() -> None:
    """Make the old one, compare, look at what came of it."""
    options = parser(__doc__, "mb", *COMPARING, runs=3)
    options.add_argument("--old", required=True, metavar="CORPUS", help="what the old vocabulary is learned from")
    options.add_argument("--new", required=True, metavar="CORPUS", help="what it is extended on")
    options.add_argument("--old-size", type=int, default=50_257)
    options.add_argument("--more", type=int, default=8_000, help="new ids")
    options.add_argument("--memory", default="1GB")
    given = options.parse_args()
    work = scratch(given.work) / "extend"
    work.mkdir(parents=True, exist_ok=True)
    corpus = prepare(given.old, str(work), "lines", given.mb)
    old = work / f"old-{corpus['name']}-{given.old_size}.json"
    if not old.exists():
        ask("extend:train_old", path=corpus["path"], kind="lines", vocab_size=given.old_size, out=str(old))
    new, held = hold_out(Path(prepare(given.new, str(work), "lines", given.mb)["path"]), work, _HELD_OUT)
    name = given.name or f"extend-{Path(given.new).name.split('.')[0]}-{given.old_size + given.more}"
    size = given.old_size + given.more
    job = {"old": str(old), "path": str(new), "kind": "lines", "vocab_size": size, "out": "{out}"}
    ours = [str(new), "--lines", "--vocab-size", str(size), "--memory", given.memory]

    for left in ("extended.json", "anew.events.jsonl"):  # by an earlier run
        (work / left).unlink(missing_ok=True)

    def keep_anew(out: Path) -> Mapping[str, Any]:
        export(str(out), "events", work / "anew.events.jsonl", force=True)
        return {}

    contenders = [
        Contender(
            "streambpe",
            streambpe("train", "{out}", *ours, "--extend", str(old)),
            outcome=lambda out: extended(out, old, work),
        ),
        Contender("streambpe-anew", streambpe("train", "{out}", *ours, "--as", str(old)), outcome=keep_anew),
    ]
    contenders += [
        Contender(
            "bpe-continue",
            call("extend:continue_theirs", **job),
            outcome=lambda out: facts_of(out, old),
            needs="bpe_continue",
        ),
        Contender(
            "bpe-continue-files",
            call("extend:continue_theirs", **job, files=True),
            outcome=lambda out: {"old_ids": facts_of(out, old)["old_ids"]},
            needs="bpe_continue",
        ),
    ]
    about = {
        "job": f"{given.old_size:,} ids of `tokenizers` on {corpus['name']}, and {given.more:,} more",
        "text": f"{Path(given.new).name}{f', the first {given.mb:g} MB' if given.mb else ''}; nine lines of ten",
    }
    same = compare(name, contenders, given, about, {"learned": 0, "old_ids": 0})
    with open(corpus["path"], encoding="utf-8", errors="replace") as lines:
        by_language = {"english, of the old text": list(lines)[-4000:], **grouped(held)}
    logs = {"before": import_hf(old), "after": import_hf(work / "extended.json")}
    if (work / "anew.events.jsonl").exists():
        logs["anew"] = read_event_log(work / "anew.events.jsonl")
    tokenizers = {when: Tokenizer(log) for when, log in logs.items()}
    all_lines = [line for lines in by_language.values() for line in lines]
    about["transformers"] = in_transformers(work / "extended.json", tokenizers["after"], all_lines[:20_000])
    rows = []
    for language, some in by_language.items():
        rates = [f"{bytes_per_token(tokenizer, some):.3f}" for tokenizer in tokenizers.values()]
        rows.append([language, f"{sum(len(line.encode()) for line in some) / 1e6:.2f}", *rates])
    columns = ("language", "held out, MB", *(f"bytes/token {when}" for when in tokenizers))
    write_table(f"{name}-languages", about, columns, rows)
    sys.exit(not same)


if __name__ == "__main__":
    main()
