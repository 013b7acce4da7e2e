# Transforms of functions: torch.func, torch.vmap, forward-mode derivatives.

# %% gradients of a function
from torch.func import grad, grad_and_value

x = torch.tensor([1.0, 2.0, 3.0])
g = grad(lambda t: t.sin().sum())(x)
g2 = grad(grad(lambda t: t**4))(torch.tensor(2.0))
both = grad(lambda a, b: (a * b**2).sum(), argnums=(0, 1))(x, x + 1)
gv = grad_and_value(lambda t: (t**2).sum())(x)
aux = grad(lambda t: ((t**2).sum(), t * 3), has_aux=True)(x)
gva = grad_and_value(lambda t: ((t**2).sum(), t * 3), has_aux=True)(x)
d = grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": x, "b": [x * 2]})
kw = grad(lambda t, k=1.0: (t * k).sum())(x, k=5.0)
neg = grad(lambda a, b: (a * b).sum(), argnums=-1)(x, x + 1)

# %% wrong functions for grad
from torch.func import grad

errors = []
for _f, _a in (
    (lambda t: t * 2, (torch.ones(2),)),
    (lambda t: 3.0, (torch.ones(2),)),
    (lambda t: t.sum(), (torch.ones(2), 5)),
):
    try:
        grad(_f)(*_a)
    except (RuntimeError, TypeError) as e:
        errors.append(e)
try:
    grad(lambda t: t.sum(), argnums=3)(torch.ones(2))
except RuntimeError as e:
    last = e

# %% vmap
x = torch.arange(12.0).view(3, 4)
y = torch.arange(4.0)
a = torch.vmap(lambda t: t.sum())(x)
b = torch.func.vmap(torch.dot, in_dims=(0, None))(x, y)
c = torch.vmap(lambda s, t: s * t, in_dims=(0, 1), out_dims=1)(x, x.t())
d = torch.vmap(lambda t: (t + 1, {"k": t.max()}))(x)
e = torch.vmap(lambda t: (t + 1, t.sum()), out_dims=(1, 0))(x)
f = torch.vmap(torch.vmap(lambda t: t * 2))(x)
g = torch.vmap(lambda p: p["a"] * p["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": y})
h = torch.vmap(lambda t: y)(x)
i = torch.vmap(lambda t: t.sum(-1), in_dims=-1, out_dims=-1)(x)
j = torch.vmap(lambda t, k: t * k)(x, k=torch.arange(4.0))
k = torch.vmap(lambda t: t.sum(), chunk_size=2)(x)
w = torch.vmap(lambda s: torch.vmap(lambda t: (s * t).sum())(x))(x)

# %% vmap with wrong arguments
errors = []
x = torch.ones(3, 4)
for _call in (
    lambda: torch.vmap(lambda t: t, in_dims=2)(x),
    lambda: torch.vmap(lambda t, u: t, in_dims=(0, 0))(x, torch.ones(2)),
    lambda: torch.vmap(lambda t: t, in_dims=None)(x),
    lambda: torch.vmap(lambda t, k: t)(x, 3),
    lambda: torch.vmap(lambda t: 3)(x),
    lambda: torch.vmap(lambda t: t, in_dims=(0, 0))(x),
    lambda: torch.vmap(lambda t: t, randomness="some")(x),
    lambda: torch.vmap(lambda t: t, chunk_size=0)(x),
):
    try:
        _call()
    except (ValueError, RuntimeError) as e:
        errors.append(e)
for _call in (
    lambda: torch.vmap(lambda t: t.sum().item())(x),
    lambda: torch.vmap(lambda t: t if t.sum() > 0 else -t)(x),
    lambda: torch.vmap(lambda t: t + torch.randn(4))(x),
    lambda: torch.vmap(lambda t: t.nonzero())(x),
):
    try:
        _call()
    except RuntimeError as e:
        errors.append(e)

# %% branches under vmap
x = torch.tensor([-1.0, 2.0, -3.0])
y = torch.vmap(lambda t: torch.where(t > 0, t, -t * 10))(x)

# %% vmap over indexing
x = torch.arange(24.0).view(2, 3, 4)
i = torch.tensor([2, 0])
a = torch.vmap(lambda t, j: t.index_select(0, j.view(1)))(x, i)
b = torch.vmap(lambda t, j: t.gather(0, j.expand(1, 4)))(x, i)
c = torch.vmap(lambda t: t[1:, ::2])(x)
d = torch.vmap(lambda t, j: torch.zeros(3, 4).index_add(0, j.view(1), t[:1]))(x, i)
e = torch.vmap(lambda t: torch.cat([t[0], t[1] * 2]))(x)
f = torch.vmap(lambda t: torch.stack([t.amax(), t.mean(), t.std()]))(x)
g = torch.vmap(lambda j: F.one_hot(j, 3))(i)
h = torch.vmap(lambda j: F.embedding(j, x[0]))(i)

# %% writing in place under vmap
x = torch.arange(6.0).view(3, 2)


def _f(t):
    t = t.clone()
    t[0] = 5
    t.mul_(2)
    t += t[1]
    return t


y = torch.vmap(_f)(x)
z = torch.zeros(2)
try:
    torch.vmap(lambda t: z.add_(t))(x)
except RuntimeError as e:
    error = e

# %% gradients of each sample
m = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
with torch.no_grad():
    for _i, _p in enumerate(m.parameters()):
        _p.copy_(torch.arange(float(_p.numel())).view(_p.shape).sin() / (_i + 1))
x = torch.arange(12.0).view(4, 3).cos()
y = torch.tensor([0, 1, 1, 0])
params = {k: v.detach() for k, v in m.named_parameters()}
from torch.func import functional_call, grad, vmap


def _loss(params, sample, target):
    out = functional_call(m, params, (sample.unsqueeze(0),))
    return F.cross_entropy(out, target.unsqueeze(0))


g = vmap(grad(_loss), in_dims=(None, 0, 0))(params, x, y)
g = {k: (v * 100).round() for k, v in g.items()}
total = grad(lambda p: vmap(_loss, in_dims=(None, 0, 0))(p, x, y).mean())(params)
F.cross_entropy(m(x), y).backward()
for _n, _p in m.named_parameters():
    assert torch.allclose(g[_n].mean(0), _p.grad * 100, atol=0.5)
    assert torch.allclose(total[_n], _p.grad, atol=1e-6)

# %% gradients of each sample of a convolutional network
m = nn.Sequential(
    nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
)
with torch.no_grad():
    for _i, _p in enumerate(m.parameters()):
        _p.copy_(torch.arange(float(_p.numel())).view(_p.shape).sin() / (_i + 1))
x = torch.arange(48.0).view(3, 1, 4, 4).cos()
y = torch.tensor([0, 2, 1])
from torch.func import functional_call, grad, vmap

params = {k: v.detach() for k, v in m.named_parameters()}


def _loss(params, sample, target):
    out = functional_call(m, params, (sample.unsqueeze(0),))
    return F.cross_entropy(out, target.unsqueeze(0))


g = vmap(grad(_loss), in_dims=(None, 0, 0))(params, x, y)

# %% an ensemble
from torch.func import functional_call, stack_module_state, vmap

models = [nn.Linear(3, 2) for _ in range(4)]
with torch.no_grad():
    for _i, _m in enumerate(models):
        _m.weight.copy_(torch.arange(6.0).view(2, 3) * (_i + 1))
        _m.bias.fill_(_i)
params, buffers = stack_module_state(models)
x = torch.arange(6.0).view(2, 3)
out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
    params, buffers, x
)
each = torch.stack([_m(x) for _m in models])
assert torch.allclose(out, each)
models = None

# %% products with jacobians
from torch.func import jvp, linearize, vjp

x = torch.tensor([1.0, 2.0, 3.0])
v = torch.tensor([1.0, 0.0, -1.0])
out, fn = vjp(lambda t: t.sin() * 2, x)
g = fn(v)
pair, fn2 = vjp(lambda a, b: (a * b, a + b), x, v)
g2 = fn2((v, x))
o, f3, extra = vjp(lambda t: (t * 2, t + 5), x, has_aux=True)
g3 = f3(v)
j = jvp(lambda t: t.sin() * 2, (x,), (v,))
j2 = jvp(lambda a, b: (a * b, a.sum()), (x, v), (v, x))
j3 = jvp(lambda t: (t * 2, t + 5), (x,), (v,), has_aux=True)
l, f4 = linearize(lambda t: t.exp() * t, x)
t4 = [f4(v), f4(x)]
fn = fn2 = f3 = f4 = None

# %% jacobians and hessians of functions
from torch.func import hessian, jacfwd, jacrev

x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(6.0).view(2, 3)
r = jacrev(lambda t: A @ t.sin())(x)
f = jacfwd(lambda t: A @ t.sin())(x)
h = hessian(lambda t: (t**3).sum() * t[0])(x)
two = jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x, A)
tup = jacrev(lambda a: (a * 2, {"s": a.sum()}))(x)
aux = jacrev(lambda a: (a * 2, a + 1), has_aux=True)(x)
fwd = jacfwd(lambda a: (a * 2, {"s": a.sum()}))(x)
nest = jacfwd(jacrev(lambda t: t**3))(x)
batch = torch.vmap(jacrev(lambda t: t**2))(A)
batch2 = torch.vmap(hessian(lambda t: (t**3).prod()))(A)
chunk = jacrev(lambda t: A @ t.sin(), chunk_size=1)(x)
d = jacrev(lambda p: p["a"] * 2)({"a": x})

# %% what vjp gives, over a batch
from torch.func import jvp, vjp

x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(6.0).view(2, 3)
_, _f = vjp(lambda t: A @ t.sin(), x)
rows = torch.vmap(_f)(torch.eye(2))
cols = torch.vmap(lambda v: jvp(lambda t: A @ t.sin(), (x,), (v,))[1])(torch.eye(3))

# %% gradients through transforms
from torch.func import grad, vjp, vmap

w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
x = torch.tensor([0.5, -1.0, 2.0])
y = grad(lambda t: (t**2 * w).sum())(x)
y.sum().backward()
g = w.grad.clone()
w.grad = None
vmap(lambda t: (t * w).sum())(x.view(3, 1)).sum().backward()
g2 = w.grad.clone()
n = grad(lambda t: t.sum())(x)
with torch.no_grad():
    p = grad(lambda t: (t**2 * w).sum())(x)
out, _f = vjp(lambda t: t * 2, x)
w.grad = None

# %% gradients of several directions at once
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
A = torch.arange(6.0).view(2, 3)
y = A @ (x**2)
(g,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)

# %% jacobians vectorized
from torch.autograd.functional import hessian, jacobian

x = torch.tensor([1.0, 2.0])
a = jacobian(lambda t: (t**2, t.sum()), x, vectorize=True)
b = tuple(jacobian(lambda s, t: s * t.sum(), (x, x + 1), vectorize=True, strategy="forward-mode"))
c = hessian(lambda t: (t**3).sum(), x, vectorize=True)
d = hessian(lambda t: (t**3).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode")
d = d.detach()

# %% dual tensors
import torch.autograd.forward_ad as fwAD

x = torch.tensor([1.0, 2.0])
t = torch.tensor([1.0, -1.0])
with fwAD.dual_level():
    _d = fwAD.make_dual(x, t)
    y = fwAD.unpack_dual(_d.sin() * 3)
    z = fwAD.unpack_dual(_d).tangent
    n = fwAD.unpack_dual(torch.ones(2)).tangent
    m = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        m.weight.fill_(2.0)
    k = fwAD.unpack_dual(m(_d)).tangent.detach()
m = None
y = (y.primal, y.tangent)
try:
    fwAD.make_dual(x, t)
except RuntimeError as e:
    error = e


# %% a function with its own forward mode
class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 3 * x**2

    @staticmethod
    def vmap(info, in_dims, x):
        return _Cube.apply(x), in_dims[0]


from torch.func import grad, jvp, vmap

x = torch.tensor([1.0, 2.0])
a = jvp(_Cube.apply, (x,), (torch.ones(2),))
b = vmap(_Cube.apply)(x)
c = vmap(grad(_Cube.apply))(x)
d = grad(lambda t: _Cube.apply(t).sum())(x)
x64 = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
ok = torch.autograd.gradcheck(_Cube.apply, (x64,), check_forward_ad=True, check_batched_grad=True)

# %% random numbers under vmap [own]
x = torch.zeros(4, 3)
_r = torch.vmap(lambda t: t + torch.rand(3), randomness="different")(x)
assert (_r[0] != _r[1]).any()
_s = torch.vmap(lambda t: t + torch.rand(3), randomness="same")(x)
assert (_s[0] == _s[1]).all()
_d = torch.vmap(lambda t: F.dropout(t + 1, 0.5), randomness="different")(torch.zeros(8, 40))
assert (_d[0] != _d[1]).any() and set(_d.unique().tolist()) == {0.0, 2.0}
_e = torch.vmap(lambda t: F.dropout(t + 1, 0.5), randomness="same")(torch.zeros(8, 40))
assert (_e[0] == _e[1]).all()

# %% functional calls
from torch.func import functional_call

m = nn.Linear(2, 1)
x = torch.ones(3, 2)
y = functional_call(m, {"weight": torch.full((1, 2), 3.0), "bias": torch.zeros(1)}, (x,))
z = functional_call(m, {"weight": torch.zeros(1, 2), "bias": torch.ones(1)}, x)
before = [p.requires_grad for p in m.parameters()]
m = None

# %% batch norms without statistics
m = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
torch.func.replace_all_batch_norm_modules_(m)
flags = [m[1].running_mean is None, m[1].track_running_stats]
f = torch.func.functionalize(lambda t: t.clone().add_(1))(torch.ones(2))
m = None

# %% hessian times vector
from torch.func import grad, jvp

x = torch.tensor([1.0, 2.0, 3.0])
v = torch.tensor([1.0, 0.0, 2.0])


def _f(t):
    return (t**3).sum() + t[0] * t[1]


a = jvp(grad(_f), (x,), (v,))[1]
b = grad(lambda t: (grad(_f)(t) * v).sum())(x)

# %% model agnostic learning
from torch.func import grad, vmap

w = torch.tensor([0.5, -0.5])
xs = torch.arange(12.0).view(3, 4) / 10
ys = (xs * 2 + 1).sin()


def _net(w, x):
    return w[0] * x + w[1]


def _task(x, y, w=w):
    def inner(w):
        return ((_net(w, x) - y) ** 2).mean()

    new = w - 0.1 * grad(inner)(w)
    return inner(new)


losses = vmap(_task)(xs, ys)
meta = grad(lambda w: vmap(lambda x, y: _task(x, y, w))(xs, ys).mean())(w)
