"""torch.backends.xnnpack: not used."""

enabled = False
