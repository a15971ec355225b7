"""Who runs tasks: threads of this process, or processes beside it."""
