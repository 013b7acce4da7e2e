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
