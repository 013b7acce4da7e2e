"""The version; names as in torch.version."""

cuda = None  # of the toolkit that PyFlame was built with: none is needed
hip = None
git_version = None
debug = False
