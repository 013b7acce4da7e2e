"""Layers and functions of einops over torch."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

x = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8).requires_grad_()
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
assert patches.shape == (2, 4, 48) and type(patches) is torch.Tensor
assert torch.equal(reduce(x, "b c h w -> b c", "mean"), x.mean((2, 3)))
assert repeat(x[0, 0], "h w -> h (w k)", k=2).shape == (8, 16)
assert torch.allclose(einsum(x, x, "b c h w, b c h w -> b"), (x * x).sum((1, 2, 3)))
packed, sizes = pack([torch.ones(2, 3), torch.ones(2, 4, 3)], "b * c")
assert packed.shape == (2, 5, 3) and unpack(packed, sizes, "b * c")[1].shape == (2, 4, 3)
net = nn.Sequential(
    nn.Conv2d(3, 6, 3, padding=1),
    Rearrange("b c (h p) (w q) -> b h w (p q c)", p=2, q=2),
    nn.LayerNorm(24),
    EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=24, d=10),
    Reduce("b h w d -> b d", "max"),
)
loss = nn.functional.cross_entropy(net(x), torch.tensor([1, 2]))
loss.backward()
assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
again = nn.Sequential(*net)
again.load_state_dict(net.state_dict())
print("fine", len(net.state_dict()))
