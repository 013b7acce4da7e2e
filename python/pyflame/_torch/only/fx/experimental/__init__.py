"""torch.fx.experimental: what libraries ask PyTorch's own tracer."""
