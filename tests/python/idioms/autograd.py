# Gradients.

# %% the first backward
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = (x**2).sum()
y.backward()
assert x.grad.tolist() == [2.0, 4.0, 6.0]

# %% gradients add up
w = torch.ones(2, requires_grad=True)
for _ in range(3):
    (w * 2).sum().backward()
g = w.grad.clone()
w.grad.zero_()
z = w.grad.clone()
w.grad = None

# %% a scalar function of two
a = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(3.0, requires_grad=True)
out = a**3 * b + b.sin()
out.backward()

# %% gradient argument
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 3
y.backward(torch.tensor([1.0, 0.5]))

# %% autograd.grad
x = torch.tensor(3.0, requires_grad=True)
y = x**3
(g,) = torch.autograd.grad(y, x, create_graph=True)
(h,) = torch.autograd.grad(g, x)
assert g.item() == 27 and h.item() == 18

# %% grad of several
a = torch.tensor([1.0], requires_grad=True)
b = torch.tensor([2.0], requires_grad=True)
c = torch.tensor([5.0], requires_grad=True)
ga, gb = torch.autograd.grad((a * b).sum(), (a, b))
unused = torch.autograd.grad((a * b).sum(), [a, c], allow_unused=True)

# %% no_grad
x = torch.ones(2, requires_grad=True)
with torch.no_grad():
    y = x * 2
    inside = torch.is_grad_enabled()
outside = torch.is_grad_enabled()
z = x * 2


@torch.no_grad()
def predict(t):
    return t + 1


p = predict(x)

# %% inference mode
x = torch.ones(2, requires_grad=True)
with torch.inference_mode():
    a = (x * 2).requires_grad
with torch.set_grad_enabled(False):
    b = (x * 2).requires_grad
with torch.no_grad(), torch.enable_grad():
    c = (x * 2).requires_grad

# %% detach
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
d = y.detach()
e = y.detach().clone()
loss = (y * d).sum()
loss.backward()
n = y.detach().numpy()

# %% data of a tensor
w = torch.ones(3, requires_grad=True)
w.data -= 0.5
w.data[0] = 7
v = w.data
s = w.data.requires_grad

# %% step by hand
w = torch.tensor([1.0, -1.0], requires_grad=True)
lr = 0.1
for _ in range(5):
    loss = ((w - 3) ** 2).sum()
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        w.grad.zero_()

# %% linear regression by hand
x = torch.linspace(0, 1, 10).unsqueeze(1)
y = 3 * x + 1
w = torch.zeros(1, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
losses = []
for _ in range(20):
    loss = (x @ w + b - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.5 * p.grad
            p.grad = None
    losses.append(loss.item())

# %% leaves and graph
x = torch.ones(1, requires_grad=True)
y = x + 1
r = [x.is_leaf, y.is_leaf, y.requires_grad, x.grad_fn is None, y.grad_fn is None, y.grad_fn.name()]
d = y.detach()
f = [d.is_leaf, d.requires_grad]

# %% retain_grad
x = torch.tensor([2.0], requires_grad=True)
y = x * 3
y.retain_grad()
(y**2).sum().backward()
gy = y.grad

# %% retain_graph
x = torch.tensor([2.0], requires_grad=True)
y = (x**2).sum()
y.backward(retain_graph=True)
y.backward()
try:
    y.backward()
except RuntimeError as e:
    twice = e

# %% hooks of tensors
x = torch.tensor([1.0, 2.0], requires_grad=True)
seen = []
h = x.register_hook(lambda g: seen.append(g.clone()))
y = x * 2
y.register_hook(lambda g: g * 10)
y.sum().backward()
h.remove()
h = None


# %% a function of ones own
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.limit).float() * 5, None


x = torch.tensor([-3.0, 0.5], requires_grad=True)
y = Clip.apply(x, 1.0)
y.sum().backward()

# %% straight through
x = torch.tensor([0.3, 0.7, 1.2], requires_grad=True)
hard = (x > 0.5).float()
y = hard.detach() - x.detach() + x
(y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()


# %% reversing gradients
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.alpha, None


x = torch.ones(2, requires_grad=True)
Reverse.apply(x, 0.5).sum().backward()

# %% gradient penalty
x = torch.tensor([[1.0, 2.0]], requires_grad=True)
w = torch.tensor([[0.5], [0.25]], requires_grad=True)
out = (x @ w).pow(2)
(g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
penalty.backward()
x = None

# %% jacobian
from torch.autograd.functional import jacobian

j = jacobian(lambda t: t**2, torch.tensor([1.0, 2.0, 3.0]))

# %% hessian
from torch.autograd.functional import hessian

h = hessian(lambda t: (t**3).sum(), torch.tensor([1.0, 2.0]))

# %% max shares nothing
x = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
x.max().backward()
a = x.grad.clone()
x.grad = None
x.max(dim=0).values.backward()
b = x.grad.clone()
x.grad = None
x.amax().backward()

# %% gradients of clamp and relu at the border
x = torch.tensor([-1.0, 0.0, 1.0, 2.0], requires_grad=True)
x.clamp(0, 1).sum().backward()
a = x.grad.clone()
x.grad = None
F.relu(x).sum().backward()

# %% gradient through indexing
x = torch.arange(4.0, requires_grad=True)
(x[[0, 0, 2]] * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
m = torch.ones(2, 2, requires_grad=True)
m[:, 0].sum().backward()

# %% writing into a clone
x = torch.ones(3, requires_grad=True)
y = x.clone()
y[0] = 5
y[1:] *= 2
y.sum().backward()

# %% where and masks
x = torch.tensor([-1.0, 2.0], requires_grad=True)
y = torch.where(x > 0, x.log(), torch.zeros_like(x))
z = x.masked_fill(x < 0, 0.0).sum()
z.backward()

# %% broadcasting sums gradients
b = torch.zeros(3, requires_grad=True)
x = torch.ones(4, 3)
(x + b).sum().backward()
s = torch.tensor(2.0, requires_grad=True)
(x * s).sum().backward()

# %% requires_grad of integers
try:
    torch.tensor([1, 2], requires_grad=True)
except RuntimeError as e:
    error = e

# %% numpy of a tensor that needs a gradient
try:
    torch.ones(1, requires_grad=True).numpy()
except RuntimeError as e:
    error = e

# %% backward of a vector
try:
    torch.ones(2, requires_grad=True).mul(2).backward()
except RuntimeError as e:
    error = e

# %% backward without a graph
try:
    torch.ones(1).sum().backward()
except RuntimeError as e:
    error = e

# %% in place on a leaf
w = torch.ones(2, requires_grad=True)
try:
    w += 1
except RuntimeError as e:
    error = e

# %% in place on what backward needs
x = torch.ones(2, requires_grad=True)
y = x.exp()
y.add_(1)
try:
    y.sum().backward()
except RuntimeError as e:
    error = e

# %% freezing by requires_grad
m = nn.Linear(2, 2)
for _p in m.parameters():
    _p.requires_grad = False
m.bias.requires_grad_(True)
flags = [p.requires_grad for p in m.parameters()]
m.requires_grad_(False)
after = [p.requires_grad for p in m.parameters()]

# %% accumulated gradients equal one large batch
w = torch.tensor([[1.0], [2.0]], requires_grad=True)
x = torch.arange(8.0).view(4, 2)
for part in x.chunk(2):
    ((part @ w).pow(2).mean() / 2).backward()
a = w.grad.clone()
w.grad = None
(x @ w).pow(2).mean().backward()
assert torch.allclose(a, w.grad)

# %% checking a gradient numerically
x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
ok = torch.autograd.gradcheck(lambda t: (t**3).sum(), (x,))

# %% two losses with weights
x = torch.tensor([1.0, 2.0], requires_grad=True)
l1, l2 = x.sum(), (x**2).sum()
total = 0.3 * l1 + 0.7 * l2
total.backward()
parts = {"l1": l1.item(), "l2": l2.item(), "total": total.item()}

# %% a loss list
x = torch.tensor([1.0, 2.0], requires_grad=True)
losses = [(x * k).sum() for k in range(3)]
sum(losses).backward()
mean = torch.stack(losses).mean()

# %% log derivative trick
probs = torch.tensor([0.2, 0.8], requires_grad=True)
action, reward = torch.tensor(1), 2.0
loss = -(probs[action].log() * reward)
loss.backward()

# %% jacobians of several
from torch.autograd.functional import jacobian

a, b = torch.tensor([1.0, 2.0]), torch.tensor([[3.0], [4.0]])
j = jacobian(lambda x, y: x * y, (a, b))
k = jacobian(lambda x: (x.sum(), x**2), a)
c = jacobian(lambda x: torch.zeros(2), a)

# %% products with jacobians and hessians
from torch.autograd.functional import hessian, hvp, jvp, vhp, vjp

x, v = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
r = [vjp(lambda t: t**2, x, v), jvp(lambda t: t**2, x, v), vjp(lambda t: t.sum(), x)]
s = [hvp(lambda t: (t**3).sum(), x, v), vhp(lambda t: (t**3).prod(), x, v)]
h = hessian(lambda p, q: (p * q**2).sum(), (x, v))

# %% wrong vectors for products
from torch.autograd.functional import vjp

try:
    vjp(lambda t: t**2, torch.ones(2))
except RuntimeError as e:
    a = e
try:
    vjp(lambda t: t**2, torch.ones(2), torch.ones(3))
except RuntimeError as e:
    b = e

# %% a hook behind accumulation
x = torch.ones(3, requires_grad=True)
w = torch.full((3,), 2.0, requires_grad=True)
seen = []


def step(p):
    seen.append(p.grad.clone())
    with torch.no_grad():
        p -= 0.1 * p.grad
    p.grad = None


h = x.register_post_accumulate_grad_hook(step)
(x * w).sum().backward()
h.remove()
h = None
(x * 5).sum().backward()
try:
    (x * 2).register_post_accumulate_grad_hook(step)
except RuntimeError as e:
    error = e

# %% an optimizer in the backward pass
m = nn.Linear(3, 2)
with torch.no_grad():
    m.weight.copy_(torch.arange(6.0).view(2, 3))
    m.bias.zero_()
_opts = {p: torch.optim.SGD([p], lr=0.1) for p in m.parameters()}


def _step(p):
    _opts[p].step()
    _opts[p].zero_grad()


for _p in m.parameters():
    _p.register_post_accumulate_grad_hook(_step)
for _ in range(2):
    m(torch.ones(4, 3)).pow(2).mean().backward()
left = [p.grad for p in m.parameters()]

# %% hooks of saved tensors
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
names = []


def pack(t):
    names.append("pack")
    return t.detach().numpy().copy()


def unpack(a):
    names.append("unpack")
    return torch.from_numpy(a)


with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = x.exp()
y.sum().backward()

# %% saved on the CPU
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
w = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    y = (x * w).sin()
y.sum().backward()
(g,) = torch.autograd.grad((x * w).sum(), x)

# %% second derivatives of what hooks saved
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
    y = (x**3).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
(h,) = torch.autograd.grad(g.sum(), x)

# %% hooks of saved tensors switched off
try:
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        with torch.autograd.graph.save_on_cpu():
            pass
except RuntimeError as e:
    error = e
    assert "not here" in str(e)

# %% writing what was saved
x = torch.ones(2, requires_grad=True)
y = x * 1
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    z = y.sin()
    y.mul_(5)
    z.sum().backward()

# %% a write that the tape cannot see
x = torch.ones(2, requires_grad=True)
a = x * 2
b = a.sin()
before = a._version
torch.autograd.graph.increment_version(a)
after = a._version
try:
    b.sum().backward()
except RuntimeError as e:
    error = e

# %% nodes
x = torch.ones(2, 3, requires_grad=True)
w = torch.ones(4, 3, requires_grad=True)
y = (x @ w.t()).relu().sum()
_walk = []
stack = [y.grad_fn]
leaves = []
while stack:
    f = stack.pop()
    _walk.append(type(f).__name__)
    if hasattr(f, "variable"):
        leaves.append(f.variable.shape)
    stack.extend(n for n, _ in f.next_functions if n is not None)
f = None
ends = [_walk[0], _walk.count("AccumulateGrad")]
same = [y.grad_fn is y.grad_fn, y.grad_fn.name(), isinstance(y.grad_fn, torch.autograd.graph.Node)]
y.grad_fn.metadata["note"] = 3
note = y.grad_fn.metadata

# %% hooks of nodes
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 3
seen = []
_a = y.grad_fn.register_hook(lambda gi, go: seen.append(("after", len(gi), go[0].tolist())))
_b = y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
y.sum().backward(retain_graph=True)
_b.remove()
_c = y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, *gi[1:]))
y.sum().backward()

# %% a hook of the accumulator
x = torch.tensor([1.0, 2.0], requires_grad=True)
_n = x.view_as(x).grad_fn.next_functions[0][0]
seen = []
_h = _n.register_hook(lambda gi, go: seen.append((gi, go[0])))
(x * 4).sum().backward()

# %% hooks of several gradients
a, b, c = (torch.tensor([float(v)], requires_grad=True) for v in (1, 2, 3))
seen, first = [], []
_h = torch.autograd.graph.register_multi_grad_hook((a, b, c), seen.append)
_f = torch.autograd.graph.register_multi_grad_hook((a, b), first.append, mode="any")
(a * b).sum().backward()
(a * b * c).sum().backward()
_h.remove()
(a * b * c).sum().backward()
count = len(first)
first = None

# %% gradient edges
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 3
_edge = torch.autograd.graph.get_gradient_edge(y)
z = (y**2).sum()
y = None
(g,) = torch.autograd.grad(z, [_edge], retain_graph=True)
(h,) = torch.autograd.grad(z, _edge, retain_graph=True)
(k,) = torch.autograd.grad(_edge, x, torch.tensor([1.0, 10.0]))

# %% variables of old
from torch.autograd import Variable

v = Variable(torch.tensor([1.0, 2.0]), requires_grad=True)
kinds = [isinstance(v, Variable), isinstance(torch.ones(1), Variable), type(v).__name__, v.is_leaf]
(v * 2).sum().backward()


# %% differentiable once
from torch.autograd.function import once_differentiable


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


x = torch.tensor([3.0], requires_grad=True)
(g,) = torch.autograd.grad(_Once.apply(x), x)
(k,) = torch.autograd.grad(_Once.apply(x).sum(), x, create_graph=True)
try:
    torch.autograd.grad(k.sum(), x)
except RuntimeError as e:
    error = e


# %% a function with several results that writes one
class _Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x, x * y

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h, h * 7


a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
_x = a * 1
_p, q = _Both.apply(_x, b)
assert _p is _x
(_p * 3 + q).sum().backward()
try:
    _Both.apply(torch.ones(2, requires_grad=True), b)
except RuntimeError as e:
    error = e


# %% attributes of a custom function's node
class _Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.note = "here"
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


n = _Keeps.apply(torch.ones(1, requires_grad=True)).grad_fn.note

# %% checks of gradients, quickly
x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
w = torch.tensor([[0.5, 1.5]], dtype=torch.float64, requires_grad=True)
ok = [
    torch.autograd.gradcheck(lambda t, u: (t**3 * u, t.sum() * u), (x, w), fast_mode=True),
    torch.autograd.gradgradcheck(lambda t, u: (t**3 * u).sum(), (x, w)),
    torch.autograd.gradgradcheck(lambda t: t.sin(), (x,), gen_non_contig_grad_outputs=True),
    torch.autograd.gradcheck(lambda t: t.detach() * t, (x,), raise_exception=False),
]

# %% retained gradients
x = torch.ones(2, requires_grad=True)
y = x * 2
r = [y.retains_grad]
y.retain_grad()
r.append(y.retains_grad)
x.retain_grad()
r.append(x.retains_grad)

# %% harmless modes
with torch.autograd.set_multithreading_enabled(False):
    x = torch.ones(1, requires_grad=True)
    (x * 2).sum().backward()

# %% a sum keeps nothing, so its gradient may be taken again
x = torch.ones(2, requires_grad=True)
s = x.sum()
s.backward()
s.backward()
