"""torch.utils.model_zoo: weights that have been downloaded; see torch.hub."""

from ....hub import load_state_dict_from_url  # noqa: F401
