"""Who runs tasks: threads of this process, processes beside it, or a Ray cluster."""
