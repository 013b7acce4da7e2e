"""torch.nn.modules: the layers, as torch.nn has them."""
