"""torch.distributed._composable: the old place of fully_shard."""
