# Making tensors.

# %% from nested lists
x = torch.tensor([[1, 2], [3, 4]])
y = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
z = torch.tensor([True, False])
scalar = torch.tensor(3.14)
assert x.dtype == torch.int64 and y.dtype == torch.float32 and z.dtype == torch.bool

# %% mixed ints and floats
x = torch.tensor([1, 2.5, True])
y = torch.tensor([1, True])
assert x.tolist() == [1.0, 2.5, 1.0]

# %% with a dtype
x = torch.tensor([1, 2, 3], dtype=torch.float32)
y = torch.tensor([1.9, -1.9], dtype=torch.int32)
z = torch.tensor([0, 1, 2], dtype=torch.bool)
h = torch.tensor([1.0], dtype=torch.float16)
assert y.tolist() == [1, -1]

# %% empty list
x = torch.tensor([])
y = torch.tensor([[]])
z = torch.tensor([], dtype=torch.long)
assert x.shape == (0,) and y.shape == (1, 0)

# %% zeros and ones
a = torch.zeros(2, 3)
b = torch.ones((2, 3))
c = torch.zeros([2, 3], dtype=torch.int64)
d = torch.ones(2, dtype=torch.bool)
e = torch.zeros(())
f = torch.zeros(0, 3)

# %% full
a = torch.full((2, 2), 7)
b = torch.full((2, 2), 7.0)
c = torch.full([3], True)
d = torch.full((), float("inf"))
e = torch.full((2,), fill_value=3, dtype=torch.float64)
assert a.dtype == torch.int64

# %% like another
x = torch.tensor([[1, 2], [3, 4]], dtype=torch.float64)
a = torch.zeros_like(x)
b = torch.ones_like(x, dtype=torch.int32)
c = torch.full_like(x, 0.5)
d = torch.empty_like(x).fill_(2)
_r = torch.rand_like(x)
r = (_r.shape, str(_r.dtype))

# %% new of a tensor
x = torch.tensor([1.0, 2.0], dtype=torch.float64)
a = x.new_zeros(2, 2)
b = x.new_ones((3,))
c = x.new_full((2,), 5)
d = x.new_tensor([1, 2, 3])
e = x.new_empty(0)

# %% arange
a = torch.arange(5)
b = torch.arange(1, 10, 3)
c = torch.arange(0, 1, 0.25)
d = torch.arange(5.0)
e = torch.arange(5, 0, -2)
f = torch.arange(3, dtype=torch.float32)
g = torch.arange(0)
assert a.dtype == torch.int64 and c.dtype == torch.float32

# %% linspace and logspace
a = torch.linspace(0, 1, 5)
b = torch.linspace(-1, 1, steps=3, dtype=torch.float64)
c = torch.logspace(0, 3, 4)
d = torch.linspace(3, 3, 1)
e = torch.logspace(0, 4, 5, base=2)

# %% eye
a = torch.eye(3)
b = torch.eye(2, 4)
c = torch.eye(2, dtype=torch.long)

# %% identity matrix repeated over a batch
eye = torch.eye(2).unsqueeze(0).repeat(3, 1, 1)
again = torch.eye(2).expand(3, 2, 2)
assert eye.shape == (3, 2, 2)

# %% tril and triu
x = torch.arange(9.0).view(3, 3)
low = torch.tril(x)
up = x.triu(1)
below = torch.tril(torch.ones(3, 3), diagonal=-1)
rows, cols = torch.tril_indices(3, 3)
pairs = torch.triu_indices(3, 3, offset=1)

# %% diagonals
m = torch.diag(torch.tensor([1.0, 2.0]))
d = torch.arange(9).view(3, 3).diag()
o = torch.diag(torch.tensor([1, 2]), 1)
e = torch.diag_embed(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
v = torch.arange(6).view(2, 3).diagonal(offset=1)

# %% a tensor of a tensor
x = torch.tensor([1.0, 2.0])
y = x.clone().detach()
z = torch.as_tensor(x)
y[0] = 9
assert x[0] == 1 and z is x

# %% as_tensor of what there is
a = torch.as_tensor([1, 2])
b = torch.as_tensor(3.5)
c = torch.as_tensor((1.0, 2.0), dtype=torch.float64)

# %% typed constructors
a = torch.FloatTensor([1, 2])
b = torch.LongTensor([3, 4])
c = torch.ByteTensor([1])
d = torch.DoubleTensor([[1]])
e = torch.BoolTensor([1, 0])
n = torch.FloatTensor(2, 3).shape

# %% Tensor as a constructor
a = torch.Tensor([1, 2])
b = torch.Tensor([[1.5]])
n = torch.Tensor(2, 3).shape
assert a.dtype == torch.float32

# %% meshgrid
x, y = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
u, v = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="xy")
grid = torch.stack((x, y), dim=-1).reshape(-1, 2)
assert grid.shape == (6, 2)

# %% grid of coordinates
h, w = 2, 3
ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
coords = torch.stack([xs, ys], dim=-1)

# %% cartesian products and combinations
p = torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([4, 5]))
c = torch.combinations(torch.tensor([1, 2, 3]), r=2)

# %% vandermonde and block diagonals
v = torch.vander(torch.tensor([1, 2, 3]))
b = torch.block_diag(torch.ones(2, 2), torch.tensor([[7.0]]))

# %% requires_grad at birth
w = torch.zeros(2, 2, requires_grad=True)
b = torch.tensor([1.0], requires_grad=True)
n = torch.ones(2).requires_grad_()
assert w.is_leaf and w.grad is None

# %% empty of a shape
shape = torch.empty(2, 3).shape
dtype = torch.empty(1, dtype=torch.float16).dtype
n = torch.empty((0,)).numel()

# %% default dtype
before = torch.get_default_dtype()
torch.set_default_dtype(torch.float64)
x = torch.zeros(2)
y = torch.tensor([1.5])
torch.set_default_dtype(torch.float32)
after = torch.zeros(1).dtype

# %% one hot by hand
labels = torch.tensor([0, 2, 1])
eye = torch.eye(3)[labels]
zeros = torch.zeros(3, 3).scatter_(1, labels.unsqueeze(1), 1)
assert torch.equal(eye, zeros)

# %% positions in a batch
b, t = 2, 4
pos = torch.arange(t).unsqueeze(0).expand(b, t)
flat = torch.arange(b * t).reshape(b, t)

# %% a tensor from a generator or range
x = torch.tensor([i * i for i in range(4)])
y = torch.tensor(range(3))
z = torch.tensor(list({"a": 1, "b": 2}.values()))

# %% tensors in lists
items = [torch.tensor(1.0), torch.tensor(2.0)]
x = torch.stack(items)
y = torch.tensor([t.item() for t in items])
z = torch.tensor(items)

# %% complex looking sizes
s = torch.Size([2, 3])
x = torch.zeros(s)
y = torch.zeros(*s, 4)
n = s.numel()
z = torch.ones(s[:1] + (5,))
last = s[-1]
