"""What an optimizer's step gives, in NumPy's float64: tests of its kernels compare with this."""

import numpy as np


def adam_step(p, g, m, v, top, lr, b1, b2, eps, wd, step, decoupled, maximize):
    """Adam (`decoupled`: AdamW) once: the new weights, moments and largest second moment (`top`, or None)."""
    if maximize:
        g = -g
    if decoupled:
        p = p * (1 - lr * wd)
    else:
        g = g + wd * p
    m = m + (1 - b1) * (g - m)
    v = v * b2 + (1 - b2) * g * g
    used = v
    if top is not None:
        top = np.maximum(top, v)
        used = top
    denominator = np.sqrt(used) / np.sqrt(1 - b2**step) + eps
    return p - lr / (1 - b1**step) * m / denominator, m, v, top
