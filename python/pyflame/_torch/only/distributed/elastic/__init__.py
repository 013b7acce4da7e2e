"""Parts of torch.distributed.elastic that change nothing in one process."""
