"""Who runs tasks: threads of this process, or a Ray cluster."""
