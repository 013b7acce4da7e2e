"""What is particular to a vendor's GPUs, importable on every machine."""
