# How things look when they are printed.

# %% small tensors
a = repr(torch.tensor([1, 2, 3]))
b = repr(torch.tensor([1.0, 2.5]))
c = str(torch.tensor([True, False]))
d = repr(torch.tensor(5))
e = repr(torch.tensor(0.1))

# %% matrices and batches
a = repr(torch.arange(6).view(2, 3))
b = repr(torch.arange(8.0).view(2, 2, 2))
c = repr(torch.zeros(1, 1, 1, 2))
d = repr(torch.arange(12).view(3, 2, 2) * 100)

# %% floats of many sizes
a = repr(torch.tensor([0.1, 100.0, 1e4]))
b = repr(torch.tensor([1e-5, 1.0]))
c = repr(torch.tensor([1e8, 1.0]))
d = repr(torch.tensor([1e-10]))
e = repr(torch.tensor([123456.789]))
f = repr(torch.tensor([1e9, 2e9]))

# %% negative and special values
a = repr(torch.tensor([-1.5, 2.0]))
b = repr(torch.tensor([float("nan"), float("inf"), -float("inf")]))
c = repr(torch.tensor([float("nan"), 1.25]))
d = repr(torch.tensor([-0.0, 0.0]))
e = repr(torch.tensor([float("inf"), 3.0]))

# %% dtypes in the text
a = repr(torch.zeros(2, dtype=torch.float64))
b = repr(torch.zeros(2, dtype=torch.float16))
c = repr(torch.tensor([1, 2], dtype=torch.int32))
d = repr(torch.tensor([1, 2], dtype=torch.uint8))
e = repr(torch.ones(2, dtype=torch.bfloat16))
f = repr(torch.tensor([-1], dtype=torch.int8))

# %% empty tensors
a = repr(torch.zeros(0))
b = repr(torch.zeros(2, 0))
c = repr(torch.zeros(0, dtype=torch.int64))
d = repr(torch.empty(0, 3, dtype=torch.bool))
e = repr(torch.tensor([]))

# %% long vectors
a = repr(torch.arange(100))
b = repr(torch.arange(1001))
c = repr(torch.arange(2000.0))
d = repr(torch.zeros(1500))

# %% large matrices
a = repr(torch.zeros(100, 100))
b = repr(torch.arange(10000).view(100, 100))
c = repr(torch.ones(5, 300))
d = repr(torch.zeros(20, 20, 20))

# %% tensors of a graph
x = torch.tensor([1.0, 2.0], requires_grad=True)
a = repr(x)
b = repr(x * 2)
c = repr((x**2).sum())
d = repr(x.exp())
e = repr(x.mean())
f = repr((x @ x).sqrt())
g = repr(x[0])
h = repr(x.view(2, 1))

# %% f-strings of scalars
loss = torch.tensor(0.123456)
a = f"{loss:.4f}"
b = f"loss {loss.item():.3f}"
c = f"{torch.tensor(3)}"
d = f"{torch.tensor(7):03d}"
e = f"{torch.tensor(1e-7):.2e}"
f = f"{loss}"

# %% f-strings of tensors
a = f"{torch.tensor([1, 2])}"
b = "{}".format(torch.ones(2))
c = "%s" % torch.zeros(1)

# %% shapes and dtypes
a = repr(torch.zeros(2, 3).shape)
b = str(torch.zeros(2, 3).shape)
c = str(torch.float32)
d = repr(torch.int64)
e = f"{tuple(torch.zeros(4, 5).shape)}"
f = str(torch.zeros(1).size())
g = f"{torch.zeros(2).dtype} {torch.zeros(2).shape}"

# %% devices
a = str(torch.device("cpu"))
b = repr(torch.device("cpu"))
c = f"{torch.zeros(1).device}" in ("cpu", "paranoid:0")

# %% a linear layer
m = nn.Linear(3, 4)
a = repr(m)
b = repr(nn.Linear(2, 2, bias=False))

# %% a stack of layers
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
a = str(m)


# %% a module of ones own
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.norm(self.act(self.fc1(x))))


a = repr(Net())

# %% nested modules
m = nn.Sequential(
    nn.Sequential(nn.Linear(2, 2), nn.Tanh()),
    nn.ModuleList([nn.Linear(1, 1), nn.Identity()]),
    nn.ModuleDict({"a": nn.Sigmoid(), "b": nn.Softmax(dim=-1)}),
)
a = repr(m)

# %% activations
a = [repr(x) for x in (nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(0.1), nn.ELU(), nn.SiLU())]
b = [
    repr(x)
    for x in (nn.Softmax(dim=1), nn.LogSoftmax(-1), nn.Hardtanh(), nn.Softplus(), nn.PReLU())
]
c = [repr(x) for x in (nn.GELU(), nn.GELU("tanh"), nn.Flatten(), nn.Identity(), nn.Mish())]

# %% embeddings, norms, losses
a = repr(nn.Embedding(10, 3, padding_idx=0))
b = repr(nn.LayerNorm([4, 5], eps=1e-6))
c = repr(nn.CrossEntropyLoss(label_smoothing=0.1))
d = repr(nn.MSELoss())
e = repr(nn.RMSNorm(4))


# %% extra_repr of ones own
class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def extra_repr(self):
        return f"factor={self.factor}"


a = repr(Scale(2))
b = repr(nn.Sequential(Scale(3)))

# %% parameters
p = nn.Parameter(torch.tensor([1.0, 2.0]))
a = repr(p)
b = repr(nn.Parameter(torch.zeros(2), requires_grad=False))

# %% a list of equal layers
a = repr(nn.ModuleList([nn.Linear(2, 2) for _ in range(3)]))
b = repr(nn.Sequential(*[nn.ReLU()] * 2))

# %% named tuples of results
a = repr(torch.max(torch.tensor([[1.0, 3.0], [5.0, 2.0]]), dim=1))
b = repr(torch.sort(torch.tensor([3, 1, 2])))
c = repr(torch.topk(torch.tensor([3.0, 1.0, 2.0]), 2))

# %% optimizers
m = nn.Linear(1, 1)
a = repr(torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9))
b = repr(torch.optim.AdamW(m.parameters(), lr=1e-3))
c = str(torch.optim.Adam(m.parameters()))

# %% precision
torch.set_printoptions(precision=2)
a = repr(torch.tensor([1.23456, 10.0]))
torch.set_printoptions(precision=4)
b = repr(torch.tensor([1.23456, 10.0]))

# %% no scientific notation
torch.set_printoptions(sci_mode=False)
a = repr(torch.tensor([1e-5, 1.0, 1e3]))
torch.set_printoptions(profile="default")
b = repr(torch.tensor([1e-5, 1.0, 1e3]))

# %% threshold and line width
torch.set_printoptions(threshold=5, edgeitems=2)
a = repr(torch.arange(10))
torch.set_printoptions(profile="default")
torch.set_printoptions(linewidth=40)
b = repr(torch.arange(30))
torch.set_printoptions(profile="default")

# %% full profile
torch.set_printoptions(profile="full")
a = repr(torch.arange(1200))
torch.set_printoptions(profile="default")

# %% a dictionary of tensors
d = {"loss": torch.tensor(0.5), "n": torch.tensor([1, 2])}
a = repr(d)
b = str([torch.tensor(1), torch.ones(2)])

# %% names of types
x = torch.ones(2)
a = x.type()
b = torch.ones(1, dtype=torch.int64).type()
c = type(x).__name__
d = type(x.shape).__name__
e = type(torch.float32).__name__

# %% finfo and iinfo
a = torch.finfo(torch.float32).eps
b = torch.finfo(torch.float16).max
c = torch.iinfo(torch.int32).max
d = torch.finfo(torch.float32).min
e = repr(torch.finfo(torch.float32))
f = repr(torch.iinfo(torch.uint8))

# %% a state dict
m = nn.Linear(1, 1)
nn.init.constant_(m.weight, 0.5)
nn.init.zeros_(m.bias)
a = repr(m.state_dict())

# %% transposed and strided tensors
x = torch.arange(6.0).view(2, 3)
a = repr(x.t())
b = repr(x[:, ::2])
c = repr(x.expand(2, 2, 3))

# %% lists and dicts of parameters
a = repr(nn.ParameterDict({"a": torch.ones(2, 3), "b": torch.ones(1).double()}))
b = repr(nn.ParameterList([torch.ones(2, 3), torch.tensor(1.0)]))

# %% what was missing when loading
m = nn.Linear(1, 1)
a = repr(m.load_state_dict({"weight": torch.ones(1, 1), "other": torch.ones(1)}, strict=False))
b = repr(m.load_state_dict(m.state_dict()))
