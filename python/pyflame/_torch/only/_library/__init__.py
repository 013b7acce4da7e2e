"""torch._library: insides of torch.library that packages import."""
