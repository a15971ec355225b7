"""Commands that use a model: encode, decode, and those that convert it to and from other programs' formats."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import click

from streambpe.cli.options import (
    click_option,
    force_option,
    json_option,
    line_option,
    options_given,
    own_option,
    planning_options,
    reading_options,
    resource_options,
    text_option,
)
from streambpe.cli.signals import stop_on_signals
from streambpe.cli.told import beside_data, say, tell, tell_json, warn
from streambpe.count_config import CountConfig
from streambpe.errors import NotExact, SourceError, TablesDiffer, UsageError, typed
from streambpe.options import options_of
from streambpe.plurals import counted
from streambpe.progress import Meter, reporting

# what says how ids are written to a file
_OF_FILE = ("dtype", "eot", "validation", "shards", "force", "engine", "threads", "temp_dir", "document_seconds")
_DTYPES = ("auto", "uint16", "uint32", "int32", "int64")


@click.command()
@click.argument("model")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@own_option("--output", "A .npy, .parquet or .bin file. [default: lines on stdout]", short="-o", metavar="OUT")
@own_option(
    "--dtype",
    "The type of the numbers in OUT; auto is uint16 up to 65 536 ids, else uint32.",
    choices=_DTYPES,
    default="auto",
)
@own_option("--eot", "A special token to write after every document of OUT.", metavar="TOKEN")
@own_option(
    "--validation",
    "Put this share of the documents (0.01, 1%) into NAME.validation.npy. They are chosen by a hash of their "
    "text, independently of --sample.",
    metavar="SHARE",
)
@own_option(
    "--shards",
    "Write N files with about the same number of ids (NAME-00000-of-0000N.npy), and an index, NAME.index.json.",
    least=1,
)
@own_option(
    "--json", "Print a JSON list per line; with -o, print the result as one JSON object.", name="as_json", default=False
)
@reading_options("lines", "text_column", "format")
@click_option(options_of(CountConfig)["bad_utf8"])
@force_option
@planning_options
@line_option
def encode(model: str, files: tuple[str, ...], output: str | None, as_json: bool, **given: Any) -> None:
    """Encode FILEs (standard input if none is given) with MODEL.

    \b
    MODEL    an event log, a RUN, or RUN:NAME
    FILE     as SOURCE of `count`; special tokens in the text are ordinary text

    With -o, the ids of all documents go into one file, in the order of the files' paths. OUT.offsets.npy says
    where each document begins (a .parquet file has one row per document). OUT.json names the type of the numbers
    and the model. You can stop or kill it: the same command continues. Without -o, it prints a line per document.

    \b
    example:
        streambpe encode runs/en corpus/*.jsonl.zst -o ids.npy
        streambpe encode runs/en corpus/*.jsonl.zst -o ids.npy \\
            --validation 1% --shards 8
        echo "Hello world" | streambpe encode runs/en
    """
    from streambpe.encode.corpus import encode_corpus
    from streambpe.encode.streams import encode_to_text
    from streambpe.encode.tokenizer import Tokenizer

    for file in files if Path(model).is_file() else ():
        if (Path(file) / "state.duckdb").is_file():
            raise UsageError(f"MODEL comes first. Did you mean `streambpe encode {typed(file)} {typed(model)}`?")
    if output is None:
        if idle := options_given(*_OF_FILE):
            are = "is" if len(idle) == 1 else "are"
            raise UsageError(f"{', '.join(idle)} {are} for encoding to a file: give its name with -o.")
        how = {name: given[name] for name in ("lines", "text_column", "format", "bad_utf8", "resources")}
        for line in encode_to_text(Tokenizer(model), files, as_json=as_json, **how):
            click.echo(line)
        return
    with stop_on_signals() as stop:
        result = encode_corpus(model, files or ("-",), output, stop=stop, **given)
    if as_json:
        tell_json(result)
        return
    for warning in result.warnings:
        warn(warning)
    if result.dropped:
        warn(f"left out, as in training: {counted(result.dropped, 'character')} outside the SCRIPT table")
    for made in (result, result.validation):
        if made is not None:
            spread = ""
            if made is result and result.shards:
                first, last = result.shards[0], result.shards[-1]
                spread = f", in {counted(len(result.shards), 'shard')}: {first.path.name} to {last.path.name}"
            of = counted(made.documents, "document")
            say(f"{made.path}: {counted(made.ids, 'id')} ({result.dtype}) of {of}{spread}")


@click.command()
@click.argument("model")
@click.argument("file", required=False)
@own_option(
    "--dtype",
    "The type of the numbers in a .bin file.",
    choices=_DTYPES,
    default="auto",
    told_default="what FILE.json says",
)
@line_option
def decode(model: str, file: str | None, dtype: str, progress: str) -> None:
    """Turn ids back into text.

    FILE holds lines of numbers or JSON lists, or is a .npy, .parquet or .bin file that `encode` wrote. Without FILE,
    standard input is read. A line feed is added after each document that does not end with one. Bytes are not changed.

    \b
    example:
        echo "Hello world" | streambpe encode runs/en | streambpe decode runs/en
        streambpe decode runs/en ids.npy | head
    """
    from streambpe.encode.decode import decode_array, decode_file
    from streambpe.encode.sidecar import another_model
    from streambpe.encode.tokenizer import Tokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TablesDiffer)  # no text is split here
        tokenizer = Tokenizer(model)
    meter = Meter("decoding")
    with contextlib.ExitStack() as stack:
        if file is not None and Path(file).suffix in (".npy", ".parquet", ".bin"):
            documents = decode_array(tokenizer, Path(file), dtype, meter)
            if told := another_model(tokenizer, Path(file)):
                warn(told)
        else:
            if dtype != "auto":
                raise UsageError("--dtype is for a .bin file; text already says what its numbers are.")
            try:
                stream = sys.stdin.buffer if file is None or file == "-" else stack.enter_context(open(file, "rb"))
            except OSError as why:
                raise SourceError(f"{file} cannot be read: {why.strerror}.") from None
            with contextlib.suppress(OSError):  # of a pipe nobody knows how much will come
                meter.total = os.fstat(stream.fileno()).st_size
            documents = decode_file(tokenizer, stream, file or "standard input", meter)
        stack.enter_context(reporting(meter, beside_data(progress)))
        for document in documents:
            click.echo(document, nl=not document.endswith(b"\n"))


@click.command()
@click.argument("model")
@own_option(
    "--to",
    "The format.",
    choices=("hf", "tiktoken", "boundless", "gguf", "events", "token-bytes"),
    required=True,
)
@own_option(
    "--output",
    "The file to write; for hf also FOLDER/.",
    short="-o",
    required=True,
    metavar="PATH",
)
@own_option(
    "--vocab-size",
    "Cut the vocabulary to this size; with several sizes, each file has the size in its name.",
    metavar="N[,N...]",
)
@own_option("--verify", "Encode this SOURCE with MODEL and with PATH, and print the differences.", metavar="TEXT")
@own_option("--no-compare", "Do not load the export in the library that it is for.", default=False)
@own_option("--strict", "Exit 4 unless the export was compared and is exact.", default=False)
@own_option("--onto", "For hf: add the new tokens to a copy of OLD, the extended tokenizer.json.", metavar="OLD")
@own_option("--bos", "For FOLDER/ and gguf: the special token that begins a text.", metavar="TOKEN")
@own_option("--eos", "For FOLDER/ and gguf: the special token that ends a text.", metavar="TOKEN")
@own_option("--pad", "For FOLDER/ and gguf: the special token that pads a batch.", metavar="TOKEN")
@own_option("--unk", "For FOLDER/ and gguf: the special token for unknown text.", metavar="TOKEN")
@own_option("--add-bos", "For FOLDER/ and gguf: encoding adds --bos before every text.", default=False)
@own_option("--add-eos", "For FOLDER/ and gguf: encoding adds --eos after every text.", default=False)
@own_option("--chat-template", "For FOLDER/ and gguf: a Jinja template for conversations.", metavar="FILE")
@force_option
@line_option
@json_option
def export(model: str, to: str, output: str, strict: bool, as_json: bool, no_compare: bool, **given: Any) -> None:
    """Write MODEL for other programs, and report what they cannot represent.

    \b
    hf         tokenizer.json, for tokenizers; with -o FOLDER/ everything that
               AutoTokenizer.from_pretrained("FOLDER") of transformers loads
    tiktoken   ranks, and a Python file that makes the Encoding:
               for en.tiktoken, `from en_tiktoken import encoding`
    boundless  a .model file, version 2, for fastboundlessbpe
    gguf       vocabulary metadata for llama.cpp; needs `pip install gguf`
    events     the event log
    token-bytes   how many bytes each id stands for, 0 for special ones, as
               PATH.npy and PATH.json: for bits per byte

    Roles you do not give go to special tokens with the usual names (<s>, </s>, <|endoftext|>, <pad>, <unk>, ...).
    In hf, uw models and plain BPE without stop words are exact. For other models, the closest form is written, and
    what is lost is printed; SCRIPT models are refused.

    --onto OLD writes OLD again, with the new tokens of MODEL added. `extend-report MODEL --text
    TEXT` says what they gain.

    \b
    example:
        streambpe export runs/en --to hf -o en.json --verify held-out.txt --strict
        streambpe export runs/en --to hf -o my-tokenizer/ --pad "<pad>" --add-bos
        streambpe export runs/en --to tiktoken -o en.tiktoken \\
            --vocab-size 8000,16000
        streambpe export runs/sw --to hf -o gpt2-sw/ --onto gpt2/
    """
    from streambpe.encode.formats.export import NEVER_COMPARED
    from streambpe.encode.formats.export import export as export_model

    if strict and no_compare:
        raise UsageError("--strict needs the comparison that --no-compare leaves out: give one of them.")
    if strict and to in NEVER_COMPARED:
        raise UsageError(
            f"--strict needs a comparison, and {to} has none: {NEVER_COMPARED[to]}. Nothing was written. Leave it out."
        )
    with stop_on_signals() as stop:
        results = export_model(model, to, output, compare=not no_compare, stop=stop, **given)
    facts = {"model": model, "to": to, "exports": [result.as_json() for result in results]}
    tell(as_json, facts, *(line for result in results for line in result.lines()))
    if strict and not all(result.exact for result in results):
        raise NotExact(f"{output} is not known to be exact. It was written anyway; see above for why.")


@click.command("import")
@click.argument("file")
@own_option("--output", "The event log to write, as MODEL.events.jsonl.", short="-o", required=True, metavar="LOG")
@own_option(
    "--pattern",
    "For tiktoken ranks, which have none.",
    metavar="NAME|REGEX",
)
@own_option(
    "--special", "A special token, for tiktoken ranks. The ids follow the last rank.", many=True, metavar="TOKEN"
)
@force_option
@line_option
@json_option
def import_(file: str, output: str, as_json: bool, **given: Any) -> None:
    """Convert a vocabulary made elsewhere into an event log with the same ids.

    FILE is a Hugging Face tokenizer.json (byte-level BPE), tiktoken ranks, a .model file of fastboundlessbpe,
    BoundlessBPE, minbpe or BatchBPE, hf:NAME (a folder, or a model in Hugging Face's cache) or tiktoken:NAME (such as
    o200k_base). What would change ids is refused; anything else that an event log cannot store is left out with a
    warning. Only the ids of BoundlessBPE's own files change.

    \b
    example:
        streambpe import tokenizer.json -o theirs.events.jsonl
        streambpe import cl100k_base.tiktoken --pattern cl100k \\
            --special "<|endoftext|>" -o cl100k.events.jsonl
    """
    from streambpe.encode.formats.imports import import_model

    tokenizer = import_model(file, output, **given)
    ids, events = tokenizer.n_vocab, len(tokenizer.event_log.events)
    facts = {"file": file, "model": output, "ids": ids, "events": events}
    tell(as_json, facts, f"{output}: {counted(ids, 'id')}, {counted(events, 'event')}")


@click.command()
@click.argument("model")
@own_option("--to", "How many ids to keep.", least=1)
@own_option(
    "--residues",
    "Instead remove tokens that are used in less than SHARE (0.05, 5%) of the places where merges make them.",
    metavar="SHARE",
)
@own_option("--output", "The event log to write, as SMALL.events.jsonl.", short="-o", required=True, metavar="LOG")
@text_option("Keep what this SOURCE uses, instead of what RUN has counted")
@reading_options("lines", "text_column")
@own_option("--map", "Also write the new id of each old one: .json, or .npz (arrays old, new).", metavar="FILE")
@own_option("--keep-ids", "Keep all ids; those of removed tokens become free, like those of --reserve.", default=False)
@force_option
@resource_options
@line_option
@json_option
def prune(model: str, to: int | None, output: str, as_json: bool, **given: Any) -> None:
    """Make a vocabulary smaller by removing the learned tokens that are used least.

    Only tokens that no other token is made of are removed; their parts are used instead. Ids are renumbered, unless
    you give --keep-ids. It prints bytes per token before and after.

    --residues removes steps towards longer tokens. The merges stay, and what is left of such a token in the end is
    split into the two tokens that it was made of.

    \b
    example:
        streambpe prune runs/en --to 16k -o small.events.jsonl --map moved.json
        streambpe prune theirs.events.jsonl --to 32k --text my-corpus/ \\
            -o small.events.jsonl
    """
    from streambpe.inspect.prune import prune as make_smaller

    made = make_smaller(model, output, to, **given)
    shorter = _bytes_per_token(made.bytes_per_token_before, made.bytes_per_token)
    sentence = f"{output}: {counted(made.ids, 'id')}, {made.ids_before:,} before. {shorter}"
    tell(as_json, made, sentence)


def _bytes_per_token(before: float | None, after: float | None) -> str:
    was, now = ("nothing to measure" if value is None else f"{value:.3f}" for value in (before, after))
    return f"Bytes per token: {was} -> {now}"


@click.command("extend-report")
@click.argument("model")
@text_option("Measure on this SOURCE, instead of what RUN has counted")
@reading_options("lines", "text_column")
@own_option("--top", "How many tokens to show.", least=0, default=20)
@resource_options
@line_option
@json_option
def extend_report(model: str, top: int, as_json: bool, **given: Any) -> None:
    """Show what `train --extend` gained: bytes per token before and after, and the new tokens that save most.

    Each line has the id of a token, how many tokens it saves, how often it is used, the old ids it is made of (a new
    embedding row may start as the mean of theirs), and its text.

    \b
    example:
        streambpe extend-report runs/sw
        streambpe extend-report runs/sw --text held-out.txt --json
    """
    from streambpe.inspect.extended import extend_report as look
    from streambpe.text.shown import shown

    found = look(model, **given)
    if as_json:
        tell_json(found)
        return
    new = f"{counted(found.ids, 'id')}, {len(found.new):,} of them new"
    say(f"{model}: {new}. {_bytes_per_token(found.bytes_per_token_before, found.bytes_per_token)}", on_stdout=True)
    for one in found.best(top):
        parts = " ".join(map(str, one.parts))
        uses = counted(one.uses, "use")
        click.echo(f'{one.id:>8}  saves {one.saved:,} in {uses}  of {parts}  "{shown(one.text.encode(), " ")}"')
