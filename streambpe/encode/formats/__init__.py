"""Formats of other programs.

export     a model   ->  the contents of files, and what is lost  ->  files that appear when all are made
imports    a file    ->  its reader  ->  an event log with the same ids

flat       what most formats can hold: a list of tokens, a list of merges, one pattern; what is lost, in sentences
foreign    what all readers share: JSON and text from outside, expressions, merges made an event log
hf, hf_folder, tiktoken_ranks, boundless, gguf     a format each
named      vocabularies by name: hf:NAME, tiktoken:NAME
onto       an export that is added to the tokenizer.json that a model extends
verify     an exported file in its own library, beside the model
"""
