"""torch.backends.miopen: not used."""

immediate = False
