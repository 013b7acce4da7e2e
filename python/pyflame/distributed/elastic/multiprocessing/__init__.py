"""Parts of elastic training that change nothing in one process."""
