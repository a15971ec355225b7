r"""Splitting by script and category rules, without a regular expression: --pattern script.

    "Hello, wörld 123 東京へ行く ok"  ->  "Hello" "," " wörld" " " "123" " " "東京へ行く" " ok"

The definition (`split_by_rules` in tests/oracles/splits.py): characters with equal groups (script,
super-category; see script.py) form groups; a group of exactly one U+0020 goes with the group after it
if that is letters of a space-using script or (Common, PS); groups that are Inherited (combining marks,
joiners), or of the chunk's own key, or Han beside Hiragana, continue the chunk before them.

The core finds the same chunks in one pass, because a border is a matter of few characters:

Take a character p of one document. Let q be the last character before it that is not Inherited
(an Inherited first character of the document counts as one that is not), r the last such before q, and
e(c) the group of c, with Han and Hiragana of one super-category taken together.

  (1) p Inherited, not the document's first: no border, groups that are Inherited always continue a chunk.
  (2) e(p) = e(q): no border. Either they are one group, or Inherited groups lie between, or they are Han
      and Hiragana: the key K of q's chunk has e(K) = e(q), as a chunk takes in nothing with another e
      but Inherited groups and the group right after a leading space, whose key then is K.
  (3) e(p) != e(q): a border, unless q is a leading U+0020 that takes p's group: q stands right before p,
      p's group takes a space, q's group is this one character and begins its chunk. The last two
      together say e(r) != (Common, Z) or there is no r: were e(r) that, q would be in r's group or, behind
      Inherited characters, be taken in by (2); otherwise q begins a chunk by (3), as (Common, Z) takes no space.

So whether there is a border before p depends on q, r and p alone: nothing behind p matters, and if
there is one, the text from p on splits by itself as it does here (p is not Inherited; where p is the q of
the next character, r does not matter unless e(r) = e(p) = (Common, Z), and then (2) had given no border).
Every border is therefore a safe place to cut a document into blocks.
"""

from __future__ import annotations

from streambpe.text.script_blocks import Group

# Scripts written with spaces between words: letters of these take a U+0020 before them.
# fmt: off
SPACED_SCRIPTS = (
    "Latin", "Arabic", "Devanagari", "Hangul", "Ethiopic", "Cyrillic", "Greek", "Hebrew", "Bengali", "Syriac",
    "Oriya", "Tamil", "Telugu", "Gurmukhi", "Gujarati", "Sinhala", "Malayalam", "Armenian", "Kannada", "Georgian",
)
# fmt: on
TAKE_SPACE: tuple[Group, ...] = (("Common", "PS"), *((script, "LM") for script in SPACED_SCRIPTS))
