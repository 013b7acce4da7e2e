"""torch.fx.experimental.proxy_tensor: tensors are traced by torch.fx alone."""


def get_proxy_mode():
    """None: no such tracer runs."""
    return None
