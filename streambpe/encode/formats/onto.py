"""export --onto OLD: a file that exists, plus the tokens that a model has beyond it.

    tokenizer.json     "vocab": {..., "Ġthe": 262},     ->  "vocab": {..., "Ġthe": 262,
                                                                       "Ġkazi": 50257},
    merges.txt, ranks  the old lines                    ->  the old lines, and the new ones

All else is kept, in its order: templates, post-processors and the like. JSON is written in the form of the old file,
which leaves every old byte where a program wrote that; merges as pairs or with a blank between, as the last one is.

What is refused: a model that does not have all tokens of OLD under their ids, OLD's merges before its own, and OLD's
way to split text; and one that the format does not hold exactly.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made, flatten
from streambpe.encode.formats.foreign import read_text
from streambpe.encode.formats.gpt2 import FILES as GPT2_FILES
from streambpe.encode.formats.gpt2 import lost_in_gpt2, read_merges, read_vocabulary
from streambpe.encode.formats.hf import WHOLE_CHUNKS, import_hf, refuse_unreachable, tokenizer_json
from streambpe.encode.formats.hf_folder import CHAT_FILE, names_folder
from streambpe.encode.formats.hf_folder import FILES as HF_FILES
from streambpe.encode.formats.named import HF, find_tokenizer_json
from streambpe.encode.formats.tiktoken_ranks import rank_lines, ranks_and_pattern, read_ranks, snippet
from streambpe.errors import ModelError, UsageError, quoted

FORMATS = ("hf", "tiktoken", "gpt2")
# What lies beside a tokenizer.json and speaks of the tokenizer, but has no list of its tokens.
_BESIDE = (*HF_FILES[1:], CHAT_FILE, "added_tokens.json")
_EXTEND = "Give the file that was extended: `streambpe train RUN SOURCE... --extend FILE` makes such a model."

Key = TypeVar("Key", str, bytes)
Merges = Sequence[tuple[str, str]]


class Old(msgspec.Struct, frozen=True):
    """The file, or folder, that an export is added to."""

    name: str
    to: str
    file: Path  # tokenizer.json, the ranks, or the folder of gpt2
    with_others: bool = False  # a folder is written, with all that speaks of the tokenizer; else a file

    @classmethod
    def of(cls, name: str | os.PathLike[str], to: str, output: str | os.PathLike[str]) -> Old:
        """Find it; an error if there is nothing, or if `to` or `output` is something else."""
        text, path = str(name), Path(name)
        if to not in FORMATS:
            raise UsageError(f"--onto {text} with --to {to}: choose one of {', '.join(FORMATS)}. Nothing was written.")
        wants_folder = to == "hf" and names_folder(output)
        if to == "gpt2":
            if not all((path / file).is_file() for file in GPT2_FILES):
                raise UsageError(
                    f"--onto {text}: for gpt2, give a folder with vocab.json and merges.txt. Nothing was written."
                )
            return cls(text, to, path)
        if to == "hf" and (text.startswith(HF) or path.is_dir()):
            file = find_tokenizer_json(text)
            return cls(text, to, file, wants_folder)
        if not path.is_file():
            raise UsageError(f"--onto {text}: there is no such file. Nothing was written.")
        if wants_folder:
            raise UsageError(
                f"-o {output} is a folder, but --onto {text} is a file. Nothing was written. Give the folder of "
                "tokenizer.json, or a file for -o."
            )
        return cls(text, to, path)

    def extended(self, encoder: Encoder, path: Path) -> Made:
        """The old file plus what is new, at `path`."""
        if self.to == "tiktoken":
            return self._ranks(encoder, path)
        if self.to == "gpt2":
            self._refuse_lost(lost_in_gpt2(encoder, flatten(encoder, "gpt2")))
        split, vocab, merges, lost = _shown(encoder)
        self._refuse_lost(lost)
        if self.to == "gpt2":
            return Made(self._gpt2(self.file, path, vocab, merges))
        old = Encoder(import_hf(self.file))
        then, old_vocab, old_merges, _ = _shown(old)
        if (then, old.model.special_ids) != (split, encoder.model.special_ids):
            what = "splits or prepares text differently" if then != split else "has other special tokens"
            raise ModelError(f"--onto {self.name}: the model {what}. Nothing was written. {_EXTEND}")
        self._refuse_other(old_vocab, vocab, old_merges, merges)
        text = read_text(self.file)
        model = json.loads(text)["model"]
        if model.get("ignore_merges"):
            refuse_unreachable(encoder, f"--onto {self.name} {WHOLE_CHUNKS}")
        content = _with_more(text, _beyond(model["vocab"], vocab), merges[len(old_merges) :]).encode()
        if not self.with_others:
            return Made({path: content})
        folder = self.file.parent
        files = {path / HF_FILES[0]: content}
        files |= {path / name: (folder / name).read_bytes() for name in _BESIDE if (folder / name).is_file()}
        if all((folder / name).is_file() for name in GPT2_FILES):
            files |= self._gpt2(folder, path, vocab, merges)
        return Made(files)

    def _refuse_lost(self, lost: Sequence[str]) -> None:
        if lost:
            raise ModelError(
                f"--onto {self.name}: {self.to} cannot store this model exactly, so it would not extend the old one. "
                f"Nothing was written. This would be lost: {' '.join(lost)}"
            )

    def _refuse_other(
        self, old: Mapping[Key, int], new: Mapping[Key, int], old_merges: Merges = (), merges: Merges = ()
    ) -> None:
        """An error if the model lacks a token or merge of the old file, or has it in another place."""
        for token, number in old.items():
            if new.get(token) != number:
                has = f"id {new[token]}" if token in new else "no such token"
                raise ModelError(
                    f"--onto {self.name}: its token {quoted(token)} has id {number}, and the model has {has}. Nothing "
                    f"was written. {_EXTEND}"
                )
        for rank, pair in enumerate(old_merges):
            if merges[rank : rank + 1] != [pair]:
                raise ModelError(
                    f"--onto {self.name}: its merge {rank} is {' + '.join(map(repr, pair))}, but the model's is "
                    f"different. Nothing was written. {_EXTEND}"
                )

    def _gpt2(self, folder: Path, path: Path, vocab: Mapping[str, int], merges: Merges) -> dict[Path, bytes]:
        """The two files of a folder, extended."""
        vocab_file, merges_file = (folder / name for name in GPT2_FILES)
        old, pairs = read_vocabulary(vocab_file), read_merges(merges_file)
        self._refuse_other(old, vocab, pairs, merges)
        more = [f"{left} {right}" for left, right in merges[len(pairs) :]]
        return {
            path / vocab_file.name: _written_as(read_text(vocab_file), old | _beyond(old, vocab)).encode(),
            path / merges_file.name: _more_lines(read_text(merges_file), more),
        }

    def _ranks(self, encoder: Encoder, path: Path) -> Made:
        ranks, expression, specials, lost = ranks_and_pattern(encoder)
        self._refuse_lost(lost)
        old = read_ranks(self.file)
        self._refuse_other(old, ranks)
        new = sorted((number, token) for token, number in ranks.items() if token not in old)
        return Made({path: _more_lines(read_text(self.file), rank_lines(new)), **snippet(path, expression, specials)})


def _shown(encoder: Encoder) -> tuple[tuple[Any, ...], dict[str, int], list[tuple[str, str]], list[str]]:
    """(how text is split and prepared, ids, merges, what is lost), as a tokenizer.json has them."""
    document, lost = tokenizer_json(encoder)
    model = document["model"]
    split = (encoder.pattern.expression, encoder.pattern.keep_gaps, encoder.normalize, model["ignore_merges"])
    return split, model["vocab"], [(left, right) for left, right in model["merges"]], lost


def _beyond(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """What stands in the new vocabulary alone, by id. Added tokens that an old file has in its list of them only are
    there too: `tokenizers` numbers those anew, behind the vocabulary, whatever the list says."""
    return dict(sorted(((t, number) for t, number in new.items() if t not in old), key=lambda item: item[1]))


def _with_more(text: str, tokens: Mapping[str, int], merges: Merges) -> str:
    """A tokenizer.json with more entries behind those of model.vocab and model.merges."""
    document = json.loads(text)
    model = document["model"]
    model["vocab"].update(tokens)
    joined = bool(model["merges"]) and isinstance(model["merges"][-1], str)
    model["merges"] += [f"{left} {right}" if joined else [left, right] for left, right in merges]
    return _written_as(text, document)


def _written_as(text: str, document: Any) -> str:
    """JSON in the form of another text, as far as programs differ in that: indents, blanks, escapes, ends of lines."""
    found = re.match(r"\{\s*?\n([ \t]*)", text)
    indent = None if found is None else found[1]
    blank = " " if '": ' in text else ""
    separators = ("," + blank if indent is None else ",", ":" + blank)
    written = json.dumps(document, ensure_ascii=text.isascii(), indent=indent, separators=separators)
    return (written.replace("\n", "\r\n") if "\r\n" in text else written) + text[len(text.rstrip()) :]


def _more_lines(text: str, lines: Sequence[str]) -> bytes:
    """A file of lines with more of them, ended as its own are."""
    end = "\r\n" if "\r\n" in text else "\n"
    text += "" if not text or text.endswith("\n") else end
    return (text + "".join(line + end for line in lines)).encode()
