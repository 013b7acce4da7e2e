"""torch.ao: what PyTorch has for smaller models."""
