# Arithmetic, comparisons, dtypes of results.

# %% operators
a, b = torch.tensor([5.0, -7.0]), torch.tensor([2.0, 2.0])
r = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a, +a, abs(a)]
s = [a + 1, 1 + a, 10 - a, 2 * a, 1 / a, 2**a, a**2]

# %% integers
a = torch.tensor([7, -7, 8])
r = [a // 2, a % 3, a / 2, a * 2, a**2, -a, a << 1, a >> 1, a & 3, a | 1, a ^ 2, ~a]
s = [torch.div(a, 2, rounding_mode="floor"), torch.div(a, 2, rounding_mode="trunc")]
t = [torch.remainder(a, 3), torch.fmod(a, 3)]

# %% promotion
i, f, d = torch.tensor([1, 2]), torch.tensor([0.5, 1.5]), torch.tensor([1.0], dtype=torch.float64)
r = [i + f, i + 1, i + 1.5, f + d, i * True, i / i]
s = [
    torch.tensor([True]) + 1,
    torch.tensor([1], dtype=torch.uint8) + torch.tensor([1], dtype=torch.int8),
]
t = [torch.tensor(1.0, dtype=torch.float64) + f, torch.ones(1, dtype=torch.float16) * 2.0]
u = [torch.ones(1, dtype=torch.bfloat16) + torch.ones(1, dtype=torch.float16)]

# %% comparisons
x = torch.tensor([1.0, 2.0, 3.0])
r = [x > 2, x >= 2, x < 2, x <= 2, x == 2, x != 2]
s = [torch.eq(x, x), x.gt(1), x.ne(torch.tensor([1.0, 0.0, 3.0])), x.lt(other=2)]
t = [torch.equal(x, x), torch.allclose(x, x + 1e-9), torch.isclose(x, x + 0.1)]

# %% logic
a, b = torch.tensor([True, False]), torch.tensor([True, True])
r = [a & b, a | b, a ^ b, ~a, torch.logical_and(a, b), torch.logical_not(a), a.logical_or(b)]
s = [a.any(), a.all(), b.all().item(), (~a).sum()]

# %% functions of one number
x = torch.tensor([0.25, 1.0, 2.5])
r = [x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.square()]
s = [
    torch.exp(x),
    torch.log1p(x),
    torch.expm1(x),
    torch.log2(x),
    torch.log10(x),
    torch.reciprocal(x),
]
t = [torch.erf(x), torch.lgamma(x), torch.digamma(x), torch.atan(x), torch.sinh(x), x.erfinv()]

# %% rounding
x = torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.4])
r = [x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.sign(), x.abs()]
s = [torch.round(torch.tensor([1.2345, 2.5]), decimals=2), x.int(), x.long()]

# %% clamping
x = torch.tensor([-2.0, 0.5, 3.0])
r = [x.clamp(0, 1), x.clamp(min=0), x.clamp(max=1.0), torch.clamp(x, -1, 1), x.clip(0, 2)]
s = [x.clamp_min(0), torch.clamp(x, min=torch.tensor([0.0, 1.0, 2.0])), F.relu(x), F.relu6(x)]

# %% larger and smaller of two
a, b = torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0])
r = [torch.maximum(a, b), torch.minimum(a, b), torch.max(a, b), torch.min(a, b), torch.fmax(a, b)]

# %% nan and inf
x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")])
r = [
    x.isnan(),
    x.isinf(),
    torch.isfinite(x),
    torch.nan_to_num(x),
    torch.nan_to_num(x, nan=0.0, posinf=9.0),
]
s = [x.isnan().any(), x != x, x.nansum(), torch.tensor(0.0) / 0, torch.tensor(1.0) / 0]
x[x != x] = 0

# %% division by zero
a = torch.tensor([1.0, -1.0, 0.0]) / 0
b = torch.tensor([1.0]) // 0.0
c = torch.tensor([5.0]) % 0.0
d = torch.tensor([0.0]).log()

# %% safe division
num, den = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
a = num / den.clamp(min=1e-8)
b = num / (den + 1e-8)
c = torch.where(den != 0, num / den, torch.zeros_like(num))

# %% conversions
x = torch.tensor([1.7, -1.7, 0.0])
r = [x.int(), x.long(), x.bool(), x.double(), x.half(), x.to(torch.int8), x.type(torch.int64)]
s = [torch.tensor([1, 0]).float(), torch.tensor([True]).int(), torch.tensor([3]).to(torch.float64)]
t = [x.float() is x, x.to(torch.float32) is x, x.type_as(torch.tensor([1])), x.bfloat16()]

# %% numbers of one element
x = torch.tensor([2.5])
r = [x.item(), float(x), int(x), bool(x), x.tolist(), round(float(x), 1)]
s = [math.sqrt(torch.tensor(4.0)), int(torch.tensor(7)), complex(2, 1) == 2 + 1j]

# %% numbers on the left
x = torch.tensor([1.0, 2.0])
r = [3 - x, 3 / x, 2**x, 3 + x, 3 * x, 7 // x, 7 % x, 1 - x, True + x]
s = [torch.add(1, x), torch.mul(2, x), torch.sub(5, x), torch.pow(2, x), torch.true_divide(1, x)]

# %% scaled sums
x, y = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
r = [
    torch.add(x, y, alpha=2),
    x.sub(y, alpha=0.5),
    torch.lerp(x, y, 0.1),
    x.lerp(y, torch.tensor([0.0, 1.0])),
]
s = [torch.addcmul(x, y, y, value=0.1), torch.addcdiv(x, y, x, value=2), torch.rsub(x, 5)]

# %% activations
x = torch.tensor([-2.0, -0.5, 0.0, 1.0])
r = [F.relu(x), F.leaky_relu(x, 0.1), F.elu(x), F.selu(x), F.gelu(x), F.silu(x), F.mish(x)]
s = [F.softplus(x), F.hardtanh(x), F.hardsigmoid(x), F.hardswish(x), F.logsigmoid(x), F.softsign(x)]
t = [torch.relu(x), torch.sigmoid(x), torch.tanh(x), F.gelu(x, approximate="tanh"), F.tanhshrink(x)]

# %% softmax
x = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
r = [F.softmax(x, dim=1), torch.softmax(x, dim=0), x.softmax(-1), F.log_softmax(x, dim=-1)]
s = [F.softmax(x / 0.5, dim=-1), F.softmin(x, dim=1), x.log_softmax(dim=1).exp().sum(1)]

# %% stable log sum exp
x = torch.tensor([[1000.0, 1000.0], [-1000.0, 0.0]])
a = torch.logsumexp(x, dim=1)
m = x.max(dim=1, keepdim=True).values
b = (m + (x - m).exp().sum(1, keepdim=True).log()).squeeze(1)
c = torch.logaddexp(torch.tensor(1000.0), torch.tensor(1000.0))

# %% normalizing images
img = torch.arange(12.0).view(3, 2, 2) / 12
mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
x = (img - mean) / std
back = x * std + mean

# %% scaling to a range
x = torch.tensor([3.0, 1.0, 5.0])
a = (x - x.min()) / (x.max() - x.min())
b = 2 * a - 1
c = (x - x.mean()) / x.std()
d = F.normalize(x, dim=0)

# %% angles
d = torch.tensor([0.0, 90.0, 180.0])
r = [
    torch.deg2rad(d),
    torch.rad2deg(torch.tensor([math.pi])),
    torch.atan2(torch.tensor([1.0]), torch.tensor([-1.0])),
]
s = [
    torch.hypot(torch.tensor([3.0]), torch.tensor([4.0])),
    torch.sin(torch.deg2rad(d)).round(decimals=5),
]

# %% half precision
x = torch.tensor([1.0, 2.0], dtype=torch.float16)
r = [x + x, x * 3, x.float(), x.sum(), x.mean(), x @ x, (x * 40000).isinf()]

# %% logit
p = torch.tensor([0.0, 0.2, 0.5, 1.0])
r = [
    torch.logit(p, eps=1e-6),
    p.logit(1e-3),
    torch.special.expit(torch.tensor([0.0]))
    if hasattr(torch, "special")
    else torch.sigmoid(torch.tensor([0.0])),
]
s = [
    torch.logit(torch.tensor([0.3])),
    torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0])),
]

# %% bits
x = torch.tensor([5, 6, 7])
r = [torch.bitwise_and(x, 1), x.bitwise_or(8), torch.bitwise_not(x), x.bitwise_xor(x)]
bits = (x.unsqueeze(-1) >> torch.arange(3)) & 1
back = (bits << torch.arange(3)).sum(-1)

# %% moving average by hand
avg, beta = torch.tensor(0.0), 0.9
history = []
for v in [1.0, 2.0, 3.0]:
    avg = beta * avg + (1 - beta) * v
    history.append(round(avg.item(), 4))

# %% accuracy
logits = torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
labels = torch.tensor([0, 1, 1])
pred = logits.argmax(dim=1)
acc = (pred == labels).float().mean().item()
correct = pred.eq(labels).sum().item()
also = (pred == labels).sum() / len(labels)

# %% complex numbers: inverse functions, running sums, values
z = torch.tensor([0.3 + 0.4j, -1.2 - 0.5j, 2.0 + 0j], dtype=torch.complex128)
r = [f(z) for f in (torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh)]
s = [z.cumsum(0), z.cumprod(0), z.nonzero(), z.any(), torch.isclose(z, z + 1e-12)]
v = [
    torch.full((2,), 1j),
    torch.full_like(z, 2j),
    z.masked_fill(torch.tensor([True, False, False]), 3j),
]
w = z.clone().requires_grad_()
torch.view_as_real(torch.asin(w) * torch.acosh(w)).sum().backward()
