"""Three bytes that no UTF-8 text can hold; they mark borders inside a counting buffer."""

DOCUMENT_END = 0xFF  # a document ends here
SCRIPT_RUN_END = 0xFE  # the piece before it is a run for the script-specific pattern
RUN_END = 0xFD  # a script run ends here, the document goes on
END_MARK = bytes([DOCUMENT_END])
