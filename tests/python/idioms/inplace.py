# Operations that write.

# %% names with an underscore
x = torch.tensor([1.0, 4.0])
x.add_(1).mul_(2).sub_(0.5).div_(2)
y = torch.tensor([1.0, 4.0]).sqrt_().neg_().abs_().clamp_(max=1.5)
z = torch.zeros(3).fill_(2).zero_()

# %% augmented assignment
x = torch.tensor([1.0, 2.0])
y = x
x += 1
x *= 2
x -= torch.tensor([1.0, 1.0])
x /= 2
x **= 2
assert y is x

# %% augmented assignment of integers
i = torch.tensor([7, 8])
i += 1
i //= 2
i %= 3
i <<= 1
i |= 1
b = torch.tensor([True, False])
b &= torch.tensor([True, True])
b ^= True

# %% copies
x = torch.zeros(3)
x.copy_(torch.tensor([1, 2, 3]))
x[:2].copy_(torch.tensor([9.0, 9.0]))
y = x.clone()
y.zero_()

# %% the result keeps its dtype
x = torch.tensor([1.5, 2.5])
x.copy_(torch.tensor([1, 2]))
i = torch.tensor([1, 2])
try:
    i += 0.5
except RuntimeError as e:
    error = e

# %% out=
out = torch.empty(2)
r = torch.add(torch.tensor([1.0, 2.0]), 1, out=out)
assert r is out
torch.matmul(torch.eye(2), torch.tensor([3.0, 4.0]), out=out)

# %% masked writes
x = torch.arange(4.0)
x.masked_fill_(x > 2, -1)
x[x < 0].zero_()
x.index_fill_(0, torch.tensor([0]), 5.0)
x.index_copy_(0, torch.tensor([1]), torch.tensor([8.0]))

# %% exchanging data
a, b = torch.tensor([1.0]), torch.tensor([2.0])
a.data, b.data = b.data, a.data

# %% old spellings of scaled sums
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    p, g = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 10.0])
    p.add_(-0.1, g)
    q = torch.add(p, 2, g)
    p.addcmul_(0.5, g, g)
    p.addcdiv_(-1, g, g)

# %% momentum by hand
buf, g, p = torch.zeros(2), torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0])
for _ in range(3):
    buf.mul_(0.9).add_(g)
    p.add_(buf, alpha=-0.1)

# %% adam by hand
p, g = torch.tensor([1.0, 2.0]), torch.tensor([0.1, -0.3])
m, v, b1, b2, eps, lr = torch.zeros(2), torch.zeros(2), 0.9, 0.999, 1e-8, 1e-2
for t in range(1, 4):
    m.mul_(b1).add_(g, alpha=1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    denom = (v.sqrt() / math.sqrt(1 - b2**t)).add_(eps)
    p.addcdiv_(m, denom, value=-lr / (1 - b1**t))

# %% moving average of weights
ema, new = torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0])
ema.mul_(0.99).add_(new, alpha=0.01)
ema.lerp_(new, 0.5)

# %% a view that is written shows in its base
x = torch.zeros(2, 2)
x.view(-1)[3] = 1
x.t()[0, 1] = 5
x.diagonal().fill_(7)
x[0].add_(1)
x.unsqueeze(0).mul_(2)

# %% transposing in place
x = torch.arange(6).view(2, 3)
x.t_()
y = torch.zeros(1, 3)
y.squeeze_()
z = torch.zeros(3).unsqueeze_(0)

# %% set by apply
x = torch.tensor([1.0, 2.0, 3.0])
x.apply_(lambda v: v * v)

# %% wrong shapes
x = torch.zeros(2)
try:
    x += torch.zeros(2, 2)
except RuntimeError as e:
    error = e
try:
    x[:] = torch.zeros(3)
except RuntimeError as e:
    second = e
