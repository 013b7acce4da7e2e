"""torch.optim.optimizer: marks that optimizers of other packages put on their functions."""


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that returns the function."""
    return lambda function: function


def _use_grad_for_differentiable(function):
    """The function."""
    return function
