"""torch.utils.data._utils: the parts of a loader."""
