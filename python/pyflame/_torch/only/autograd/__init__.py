"""Names of torch.autograd's modules that have others here."""
