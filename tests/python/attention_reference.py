"""Attention and its gradients in float64 with NumPy, one way for everything that it can be asked."""

import numpy as np


def allowed(length, keys, left=-1, right=-1, bottom_right=False):
    """Which query sees which key: bool [length, keys]."""
    i = np.arange(length)[:, None] + (keys - length if bottom_right else 0)
    j = np.arange(keys)[None, :]
    sees = np.ones((length, keys), bool)
    if left >= 0:
        sees &= j >= i - left
    if right >= 0:
        sees &= j <= i + right
    return sees


def attention(
    q, k, v, g=None, *, scale=None, left=-1, right=-1, bottom_right=False, softcap=0.0, mask=None,
    slopes=None, factors=None,
):  # fmt: skip
    """q [..., L, E], k [..., S, E], v [..., S, Ev], slopes [..., 1, 1]; `factors` are what weights
    are multiplied with. Returns (out, lse), or with g (out, lse, dq, dk, dv, ds), where ds is the
    gradient of what is added to scores."""
    length, keys = q.shape[-2], k.shape[-2]
    scale = 1 / np.sqrt(max(1, q.shape[-1])) if scale is None else scale
    s = q @ np.swapaxes(k, -1, -2) * scale
    slope = 1.0
    if softcap:
        t = np.tanh(s / softcap)
        s, slope = softcap * t, 1 - t * t
    if slopes is not None:
        i = np.arange(length)[:, None] + (keys - length if bottom_right else 0)
        s = s - slopes * np.abs(i - np.arange(keys)[None, :])
    sees = np.broadcast_to(allowed(length, keys, left, right, bottom_right), s.shape)
    if mask is not None:
        if mask.dtype == bool:
            sees = sees & mask
        else:
            s = s + mask
    s = np.where(sees, s, -np.inf)
    with np.errstate(all="ignore"):
        top = s.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(s - np.where(np.isinf(top), 0, top))
        total = e.sum(-1, keepdims=True)
        p = np.where(total == 0, 0, e / np.where(total == 0, 1, total))
        lse = np.where(total == 0, -np.inf, np.log(total) + np.where(np.isinf(top), 0, top))[..., 0]
    factors = 1.0 if factors is None else factors
    out = (p * factors) @ v
    if g is None:
        return out, lse
    dp = g @ np.swapaxes(v, -1, -2) * factors
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    inner = ds * slope * scale
    dq, dk = inner @ k, np.swapaxes(inner, -1, -2) @ q
    return out, lse, dq, dk, np.swapaxes(p * factors, -1, -2) @ g, ds


def summed_to(x, shape):
    """Undoes broadcasting."""
    while x.ndim > len(shape):
        x = x.sum(0)
    for d, n in enumerate(shape):
        if n == 1:
            x = x.sum(d, keepdims=True)
    return x
