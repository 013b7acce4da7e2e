"""torch.backends.quantized: not used."""

engine, supported_engines = "none", ["none"]
