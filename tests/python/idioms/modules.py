# Layers, parameters, buffers, hooks, state.

# %% a module of ones own
class Net(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_out)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc2(x)


_net = Net(4, 8, 2)
_out = _net(torch.ones(3, 4))
r = [_out.shape, _out.requires_grad, str(_net)]
names = [n for n, _ in _net.named_parameters()]

# %% counting parameters
m = nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 1, bias=False))
n = sum(p.numel() for p in m.parameters())
trainable = sum(p.numel() for p in m.parameters() if p.requires_grad)
size = sum(p.numel() * p.element_size() for p in m.parameters())
shapes = {k: tuple(v.shape) for k, v in m.state_dict().items()}

# %% sequential by name
from collections import OrderedDict

m = nn.Sequential(OrderedDict([("fc", nn.Linear(2, 3)), ("act", nn.Tanh())]))
r = [m.fc.out_features, len(m), type(m[1]).__name__, list(m._modules)]
m.add_module("out", nn.Linear(3, 1))
m.append(nn.Sigmoid())
s = [m[-1], m[:2], list(m.state_dict())]


# %% module lists and dicts
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 4)})
        self.extra = nn.ParameterList([nn.Parameter(torch.ones(1))])

    def forward(self, x, head):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.heads[head](x) * self.extra[0]


_m = Net()
r = [_m(torch.ones(1, 2), h).shape for h in ("a", "b")]
names = list(_m.state_dict())
s = [len(_m.layers), "a" in _m.heads, list(_m.heads.keys())]


# %% parameters and buffers
class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("cache", torch.zeros(1), persistent=False)
        self.register_parameter("bias", None)


m = Norm(3)
r = [[n for n, _ in m.named_parameters()], [n for n, _ in m.named_buffers()], list(m.state_dict())]
s = [m.bias is None, m.weight.requires_grad, m.mean.requires_grad]


# %% a parameter registers itself
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 2))
        self.plain = torch.zeros(3)


m = Net()
names = list(dict(m.named_parameters()))
m.w.data.fill_(3)
total = m.w.sum()
is_parameter = [
    isinstance(m.w, nn.Parameter),
    isinstance(m.plain, nn.Parameter),
    isinstance(m.w, torch.Tensor),
]

# %% start values
m = nn.Linear(3, 2)
with torch.no_grad():
    m.weight.fill_(0.5)
    m.bias.zero_()
y = m(torch.ones(1, 3))
nn.init.constant_(m.weight, 2.0)
nn.init.ones_(m.bias)
z = m(torch.ones(1, 3)).detach()
e = nn.init.eye_(torch.empty(2, 2))


# %% apply with a function
def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        m.bias.data.fill_(0.01)


_m = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
_m.apply(init_weights)
biases = [_m[0].bias.detach(), _m[2].bias.detach()]
bound = _m[0].weight.abs().max().item() <= math.sqrt(6 / 8)

# %% bounds of start values
_w = torch.empty(50, 20)
r = [
    nn.init.kaiming_uniform_(_w, nonlinearity="relu").abs().max().item() <= math.sqrt(6 / 20),
    nn.init.xavier_normal_(_w).std().item() < 0.25,
    nn.init.uniform_(_w, -1, 1).min().item() >= -1,
    nn.init.trunc_normal_(_w, std=0.02, a=-0.04, b=0.04).abs().max().item() <= 0.04,
    nn.init.calculate_gain("relu"),
    nn.init.calculate_gain("leaky_relu", 0.2),
]

# %% train and eval
m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
a = [m.training, m[1].training]
m.eval()
b = [m.training, m[1].training]
x = torch.ones(4, 2)
same = torch.equal(m(x), m(x))
m.train()
m[1].eval()
c = [x.training for x in m.modules()]
m.train(False)

# %% walking through modules
m = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)))
r = [[n for n, _ in m.named_modules()], [n for n, _ in m.named_children()], len(list(m.modules()))]
linear = [n for n, x in m.named_modules() if isinstance(x, nn.Linear)]
sub = m.get_submodule("1.1")
p = tuple(m.get_parameter("1.1.weight").shape)

# %% replacing a layer
m = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10))
m[2] = nn.Linear(m[2].in_features, 2)
m[1] = nn.GELU()
text = str(m)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)
        self.fc = nn.Linear(2, 5)


_n = Net()
_n.fc = nn.Identity()
setattr(_n, "body", nn.Linear(2, 7))
s = str(_n)

# %% deleting a layer
m = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
del m[1]
r = [len(m), list(m.state_dict())]
body = nn.Sequential(*list(m.children())[:-1])

# %% state dict to and fro
a, b = nn.Linear(2, 2), nn.Linear(2, 2)
result = b.load_state_dict(a.state_dict())
same = torch.equal(a.weight, b.weight)
text = str(result)

# %% state dict with other names
_a, b = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))
_state = {f"0.{k}": v for k, v in _a.state_dict().items()}
b.load_state_dict(_state)
_stripped = {k.replace("module.", ""): v for k, v in {"module.weight": 1, "module.bias": 2}.items()}

# %% missing and unexpected keys
m = nn.Linear(2, 2)
missing, unexpected = m.load_state_dict(
    {"weight": torch.zeros(2, 2), "other": torch.ones(1)}, strict=False
)
try:
    m.load_state_dict({"weight": torch.zeros(2, 2)})
except RuntimeError as e:
    error = e
try:
    m.load_state_dict({"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
except RuntimeError as e:
    shape_error = e

# %% loading what fits
m = nn.Linear(2, 3)
_old = {"weight": torch.ones(3, 2), "bias": torch.ones(5)}
_own = m.state_dict()
_fit = {k: v for k, v in _old.items() if k in _own and v.shape == _own[k].shape}
_own.update(_fit)
m.load_state_dict(_own)
w = m.weight.detach()
fit = list(_fit)

# %% a state dict shares memory
m = nn.Linear(1, 1, bias=False)
sd = m.state_dict()
sd["weight"].fill_(7)
w = m.weight.item()
kept = {k: v.clone() for k, v in m.state_dict().items()}
m.weight.data.zero_()
k = kept["weight"]
g = [v.requires_grad for v in sd.values()]

# %% forward hooks
m = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
seen = {}


def keep(name):
    def hook(module, inputs, output):
        seen[name] = (type(module).__name__, len(inputs), tuple(output.shape))

    return hook


handles = [layer.register_forward_hook(keep(n)) for n, layer in m.named_children()]
_ = m(torch.ones(4, 2))
for h in handles:
    h.remove()
h = handles = None
first = dict(seen)
seen.clear()
_ = m(torch.ones(4, 2))
empty = dict(seen)

# %% hooks that change things
m = nn.Identity()
m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
m.register_forward_hook(lambda module, args, out: out + 1)
y = m(torch.tensor([1.0]))

# %% backward hooks of modules
m = nn.Linear(2, 1, bias=False)
nn.init.ones_(m.weight)
grads = []
_h = m.register_full_backward_hook(
    lambda mod, gin, gout: grads.append((gin[0].clone(), gout[0].clone()))
)
x = torch.tensor([[1.0, 2.0]], requires_grad=True)
m(x).sum().backward()


# %% sharing weights
class LM(nn.Module):
    def __init__(self, v, d):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.emb.weight


_m = LM(5, 3)
r = [_m.head.weight is _m.emb.weight, len(list(_m.parameters())), list(_m.state_dict())]
_m(torch.tensor([0])) if False else None
s = _m.head(_m.emb(torch.tensor([1, 2]))).shape

# %% copies of modules
a = nn.Linear(2, 2)
b = copy.deepcopy(a)
b.weight.data.add_(1)
different = torch.allclose(b.weight, a.weight + 1) and a.weight is not b.weight
clones = nn.ModuleList([copy.deepcopy(a) for _ in range(2)])
n = len(list(clones.parameters()))

# %% zero_grad of a module
m = nn.Linear(1, 1)
m(torch.ones(1, 1)).sum().backward()
a = m.weight.grad is not None
m.zero_grad()
b = m.weight.grad is None

# %% dtype and device of a module
m = nn.Linear(2, 2)
a = next(m.parameters()).dtype
m.double()
b = m.weight.dtype
m.to(torch.float16)
c = m.bias.dtype
m.float()
d = [p.device.type for p in m.parameters()] == [m.weight.device.type] * 2
e = m.to("cpu") is m


# %% residual blocks
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return x + self.ff(self.norm(x))


_m = nn.Sequential(*[Block(4) for _ in range(2)])
r = [_m(torch.ones(2, 3, 4)).shape, sum(p.numel() for p in _m.parameters())]

# %% layer norm by hand
x = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 3.0]])
a = F.layer_norm(x, (3,))
b = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
c = nn.LayerNorm(3)(x).detach()
d = nn.RMSNorm(3)(x).detach()
assert torch.allclose(a, b, atol=1e-6)

# %% calling through functional
x, w, b = torch.ones(1, 2), torch.tensor([[1.0, 2.0]]), torch.tensor([0.5])
y = F.linear(x, w, b)
z = x @ w.t() + b
d = F.dropout(x, p=0.5, training=False)

# %% dropout [own]
x = torch.ones(1000)
m = nn.Dropout(0.25)
y = m(x)
kept = (y != 0).float().mean().item()
assert 0.65 < kept < 0.85
assert torch.allclose(y[y != 0], torch.tensor(1 / 0.75))
assert torch.equal(m.eval()(x), x)

# %% attributes that do not exist
m = nn.Linear(1, 1)
try:
    m.nothing
except AttributeError as e:
    error = e
r = [hasattr(m, "weight"), hasattr(m, "nothing"), getattr(m, "nothing", None)]


# %% forgetting super().__init__
class Bad(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(1, 1)


try:
    Bad()
except AttributeError as e:
    error = e

# %% a module without forward
try:
    nn.Module()(torch.ones(1))
except NotImplementedError as e:
    error = e

# %% wrong input of a layer
try:
    nn.Linear(3, 2)(torch.ones(1, 4))
except RuntimeError as e:
    error = e
try:
    nn.Linear(3, 2)(torch.ones(1, 3, dtype=torch.long))
except RuntimeError as e:
    second = e

# %% loading pretrained parts
body, head = nn.Linear(2, 3), nn.Linear(3, 1)
m = nn.Sequential(body, nn.ReLU(), head)
for _n, _p in m.named_parameters():
    if _n.startswith("0."):
        _p.requires_grad_(False)
flags = {n: p.requires_grad for n, p in m.named_parameters()}
count = len([p for p in m.parameters() if p.requires_grad])


# %% a lambda layer
class Lambda(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


y = nn.Sequential(Lambda(lambda x: x.view(x.size(0), -1)), nn.Flatten())(
    torch.arange(8).view(2, 2, 2)
)

# %% flatten and unflatten layers
x = torch.arange(12).view(2, 2, 3)
a = nn.Flatten()(x)
b = nn.Unflatten(1, (2, 3))(a)
c = nn.Flatten(0, 1)(x)

# %% parametrized activations
m = nn.PReLU()
y = m(torch.tensor([-1.0, 2.0])).detach()
n = sum(p.numel() for p in nn.PReLU(4).parameters())

# %% weights as one vector
from torch.nn.utils import parameters_to_vector, vector_to_parameters

m = nn.Linear(2, 1)
vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), m.parameters())
v = parameters_to_vector(m.parameters()).detach()
y = m(torch.ones(1, 2)).item()
