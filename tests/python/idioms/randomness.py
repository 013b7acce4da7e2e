# Random numbers: what holds whatever the generator.

# %% shapes and dtypes
_a, _b, _c = torch.rand(2, 3), torch.randn(4), torch.randint(0, 10, (5,))
r = [
    _a.shape,
    _a.dtype,
    _b.shape,
    _c.dtype,
    torch.randperm(6).sort().values,
    torch.randn(2, 2, dtype=torch.float64).dtype,
]
s = [
    torch.rand(()).shape,
    torch.randint(5, (2, 2)).shape,
    torch.randn_like(torch.zeros(3)).shape,
    torch.rand((2, 3)).shape,
]

# %% seeds repeat [own]
torch.manual_seed(7)
a = torch.randn(3)
torch.manual_seed(7)
assert torch.equal(a, torch.randn(3))
assert not torch.equal(a, torch.randn(3))

# %% ranges
_u, _i = torch.rand(1000), torch.randint(3, 7, (1000,))
r = [bool((_u >= 0).all() and (_u < 1).all()), _i.min().item(), _i.max().item(), _u.requires_grad]

# %% moments [own]
x = torch.randn(20000)
assert abs(x.mean().item()) < 0.05 and abs(x.std().item() - 1) < 0.05
y = torch.empty(20000).uniform_(-1, 1)
assert abs(y.mean().item()) < 0.05 and y.min() >= -1 and y.max() < 1
z = torch.empty(20000).normal_(mean=2, std=0.5)
assert abs(z.mean().item() - 2) < 0.05

# %% bernoulli and masks [own]
m = torch.bernoulli(torch.full((10000,), 0.3))
assert set(m.unique().tolist()) <= {0.0, 1.0} and 0.25 < m.mean().item() < 0.35
keep = torch.rand(10000) < 0.8
assert keep.dtype == torch.bool and 0.75 < keep.float().mean().item() < 0.85

# %% multinomial
_p = torch.tensor([0.0, 0.0, 1.0])
r = [
    torch.multinomial(_p, 1),
    torch.multinomial(_p, 4, replacement=True),
    torch.multinomial(torch.eye(3), 1),
]
s = torch.multinomial(torch.ones(5), 5).sort().values

# %% sampling a token [own]
logits = torch.tensor([0.0, 0.0, 8.0])
drawn = torch.multinomial(F.softmax(logits, dim=-1), 500, replacement=True)
assert (drawn == 2).float().mean() > 0.95
top, idx = torch.topk(logits, 1)
assert idx.item() == 2

# %% generators [own]
g = torch.Generator().manual_seed(3)
a = torch.rand(4, generator=g)
b = torch.rand(4, generator=g)
again = torch.Generator()
again.manual_seed(3)
assert torch.equal(a, torch.rand(4, generator=again)) and torch.equal(
    b, torch.rand(4, generator=again)
)
assert sorted(torch.randperm(5, generator=g).tolist()) == [0, 1, 2, 3, 4]

# %% state of the generator [own]
state = torch.get_rng_state()
a = torch.randn(2)
torch.set_rng_state(state)
assert torch.equal(a, torch.randn(2))

# %% shuffling a tensor
_x = torch.arange(10)
_s = _x[torch.randperm(len(_x))]
r = [_s.sort().values, _s.shape]

# %% noise that keeps the gradient
x = torch.zeros(2, requires_grad=True)
_y = x + 0.1 * torch.randn_like(x)
_y.sum().backward()
r = _y.requires_grad

# %% reparametrized samples
mu = torch.zeros(3, requires_grad=True)
logvar = torch.zeros(3, requires_grad=True)
_std = torch.exp(0.5 * logvar)
_z = mu + torch.randn_like(_std) * _std
_z.sum().backward()
r = [mu.grad, logvar.grad.shape]
logvar = None

# %% gumbel softmax
_y = F.gumbel_softmax(torch.zeros(4, 3), tau=0.5, hard=True)
r = [_y.sum(1), _y.max(1).values, _y.shape]

# %% fork of the state [own]
torch.manual_seed(0)
with torch.random.fork_rng():
    torch.randn(3)
a = torch.randn(2)
torch.manual_seed(0)
assert torch.equal(a, torch.randn(2))

# %% initial seed
torch.manual_seed(123)
r = torch.initial_seed()
