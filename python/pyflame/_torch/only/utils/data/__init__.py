"""Names of torch.utils.data's modules that have others here."""
