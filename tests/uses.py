"""A use of each command, for tests that try them all, and what they are tried on."""

from __future__ import annotations

import re
import shlex

# RUN is a trained run, TEXT a text, TOKENIZER a tokenizer.json, OUT what is made, HERE a folder for temporary files.
MAKES_FILES = {  # which are kept if they are there already
    "encode-npy": "encode RUN TEXT -o OUT.npy --memory 300MB",
    "encode-bin": "encode RUN TEXT -o OUT.bin --memory 300MB",
    "encode-parquet": "encode RUN TEXT -o OUT.parquet --memory 300MB",
    "encode-validation": "encode RUN TEXT -o OUT.bin --validation 50% --lines --memory 300MB",
    "encode-shards": "encode RUN TEXT -o OUT.bin --shards 2 --lines --memory 300MB",
    "export-hf": "export RUN --to hf -o OUT.json",
    "export-folder": "export RUN --to hf -o OUT/",
    "export-tiktoken": "export RUN --to tiktoken -o OUT.tiktoken",
    "export-boundless": "export RUN --to boundless -o OUT.model",
    "export-events": "export RUN --to events -o OUT.jsonl",
    "export-sizes": "export RUN --to hf -o OUT.json --vocab-size 260,265 --no-compare",
    "export-counts-csv": "export-counts RUN -o OUT.csv",
    "export-counts-parquet": "export-counts RUN -o OUT.parquet",
    "import": "import TOKENIZER -o OUT.jsonl",
    "sql": "sql RUN run -o OUT.csv --memory 300MB",
    "prune": "prune RUN --to 262 -o OUT.jsonl --map OUT.json --memory 300MB",
}
MAKES_MORE = {
    "report": "report RUN -o OUT.html --memory 300MB",
    "sizes": "sizes RUN --text TEXT -o OUT.parquet --memory 300MB",
    "export-gguf": "export RUN --to gguf -o OUT.gguf",
    "count": "count OUT TEXT --memory 300MB",
    "train": "train OUT TEXT --vocab-size 262 --temp-dir HERE --memory 300MB",
    "merge-counts": "merge-counts OUT RUN --memory 300MB",
}
GOES_ON = {  # where OUT is a trained run
    "resume": "resume OUT",
    "grow": "train OUT --vocab-size 269 --memory 300MB",
    "converge": "converge OUT -s 260 --steps 2 --memory 300MB",
    "check": "check OUT --replay --temp-dir HERE --memory 300MB",
}
USES = MAKES_FILES | MAKES_MORE | GOES_ON
LOOKS = {  # and write nothing
    "status": "status RUN",
    "watch": "watch RUN",
    "explain": "explain RUN the",
    "diff": "diff RUN RUN",
    "evaluate": "evaluate RUN --text TEXT --tokenizer TOKENIZER --memory 300MB",
    "plan": "plan TEXT -s 260 --rehearse 1MB --memory 300MB",
    "decode": "decode RUN IDS",
    "extend-report": "extend-report RUN --memory 300MB",
    "docs": "docs jobs",
}


def words_of(use: str, **places: object) -> list[str]:
    """The words of a use, or of a command that is written like one, with these in place of RUN and the others."""
    words = shlex.split((USES | LOOKS).get(use, use))
    for name, place in places.items():
        words = [word.replace(name, str(place)) if re.match(f"([a-z]=)?{name}", word) else word for word in words]
    return words


def with_wrong_places(wrong: object, **places: object) -> dict[str, list[str]]:
    """The words of each command with something wrong in one of its places, by command and place."""
    found: dict[str, list[str]] = {}
    for name, use in (USES | LOOKS).items():
        use = use.replace("OUT", "RUN") if name in GOES_ON else use
        for place in places:
            if place in use:
                words = words_of(use, **{place: wrong}, **{other: places[other] for other in places if other != place})
                found.setdefault(f"{words[0]} {place}", words)
    return found
