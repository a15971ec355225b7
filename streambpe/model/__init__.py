"""What a vocabulary is: base symbols, tokens, events, the event log, and what replaying it means."""
