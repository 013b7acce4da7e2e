# Reading and writing parts of tensors.

# %% elements and rows
x = torch.arange(12).view(3, 4)
a = x[0]
b = x[1, 2]
c = x[-1, -1]
d = x[1][2]
e = x[0, 0].item()

# %% slices
x = torch.arange(20).view(4, 5)
a = x[1:3]
b = x[:, 1]
c = x[:2, ::2]
d = x[..., -1]
e = x[-2:, -3:-1]
f = x[::2]
g = x[2:2]
h = x[10:]

# %% None and newaxis
x = torch.arange(3)
a = x[None]
b = x[:, None]
c = x[None, :, None]
d = x[..., None]

# %% Ellipsis
x = torch.arange(24).view(2, 3, 4)
a = x[..., 0]
b = x[0, ...]
c = x[:, ..., 1:2]
d = x[...]

# %% lists as indices
x = torch.arange(12).view(3, 4)
a = x[[0, 2]]
b = x[:, [1, 3]]
c = x[[0, 1], [2, 3]]
d = x[[-1]]
e = x[[[0, 1], [1, 2]]]

# %% index tensors
x = torch.arange(10) * 10
i = torch.tensor([[0, 1], [5, 9]])
a = x[i]
b = x[torch.tensor([-1, -2])]
m = torch.arange(12).view(3, 4)
c = m[torch.tensor([0, 2])]
d = m[torch.tensor([0, 1]), torch.tensor([1, 1])]
e = m[torch.tensor([[0], [2]]), torch.tensor([1, 3])]

# %% picking the score of each label
logits = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
y = torch.tensor([2, 0])
a = logits[range(2), y]
b = logits[torch.arange(2), y]
c = logits.gather(1, y.unsqueeze(1)).squeeze(1)
d = logits[range(len(y)), [2, 0]]
assert a.tolist() == b.tolist() == c.tolist() == [3.0, 4.0]

# %% masks
x = torch.tensor([[1.0, -2.0], [-3.0, 4.0]])
a = x[x > 0]
b = x[x < -10]
x[x < 0] = 0
c = x[torch.tensor([True, False])]
d = x[:, torch.tensor([False, True])]

# %% conditions together
x = torch.arange(10)
a = x[(x > 2) & (x % 2 == 0)]
b = x[(x < 2) | (x > 7)]
c = x[~(x > 3)]
n = (x > 5).sum().item()

# %% writing elements
x = torch.zeros(2, 3)
x[0, 1] = 5
x[1] = 7.5
x[:, 2] = torch.tensor([1.0, 2.0])
y = torch.zeros(3, dtype=torch.long)
y[0] = 2.9
y[-1] = True

# %% writing slices
x = torch.zeros(4, 4)
x[1:3, 1:3] = 1
x[::2] += 10
x[:, 0] = torch.arange(4.0)
x[0, :2] = torch.tensor(9)

# %% writing by index lists
x = torch.zeros(5)
x[[0, 2]] = 1
x[torch.tensor([3, 4])] = torch.tensor([2.0, 3.0])
m = torch.zeros(3, 3)
m[[0, 1, 2], [2, 1, 0]] = 1
m[range(3), range(3)] += 5

# %% writing by mask
x = torch.arange(6.0)
x[x > 3] = -1
x[x == -1] *= 2
m = torch.eye(3)
m[m == 0] = float("-inf")
y = torch.arange(4)
y[torch.tensor([True, False, True, False])] = torch.tensor([7, 8])

# %% adding at repeated places
x = torch.zeros(3)
x[[0, 0, 1]] += 1
y = torch.zeros(3).index_add_(0, torch.tensor([0, 0, 1]), torch.ones(3))
z = torch.zeros(3).index_put_((torch.tensor([0, 0, 1]),), torch.ones(3), accumulate=True)
s = torch.zeros(3).scatter_add_(0, torch.tensor([0, 0, 1]), torch.ones(3))

# %% views share memory
x = torch.zeros(2, 3)
row = x[0]
row.fill_(1)
col = x[:, 1]
col += 5
flat = x.view(-1)
flat[-1] = 9
copied = x[[0]]
copied.zero_()

# %% gather along dimensions
x = torch.tensor([[1, 2], [3, 4]])
a = torch.gather(x, 1, torch.tensor([[0, 0], [1, 0]]))
b = x.gather(0, torch.tensor([[1, 0]]))
c = torch.take_along_dim(x, x.argsort(dim=1, descending=True), dim=1)

# %% select and narrow
x = torch.arange(12).view(3, 4)
a = x.select(1, 2)
b = x.narrow(0, 1, 2)
c = torch.index_select(x, 1, torch.tensor([3, 0]))
d = x.take(torch.tensor([0, 5, 11]))
e = x.unbind(0)
f = x.unbind(dim=1)[0]

# %% where
x = torch.tensor([-1.0, 0.0, 2.0])
a = torch.where(x > 0, x, torch.zeros_like(x))
b = torch.where(x > 0, x, 0.0)
c = torch.where(x > 0, 1, -1)
d = x.where(x > 0, torch.tensor(9.0))
e = torch.where(torch.tensor([[True], [False]]), torch.arange(3), 10)

# %% where are they
x = torch.tensor([[0, 1], [2, 0]])
a = torch.nonzero(x)
b = x.nonzero(as_tuple=True)
i, j = torch.where(x > 0)
c = x[i, j]
d = (x == 2).nonzero()
e = torch.argwhere(x)

# %% first true of a row
mask = torch.tensor([[False, True, True], [False, False, False]])
first = mask.int().argmax(dim=1)
has = mask.any(dim=1)
none = torch.where(has, first, -1)

# %% last step of padded sequences
x = torch.arange(12.0).view(2, 3, 2)
lengths = torch.tensor([2, 3])
last = x[torch.arange(2), lengths - 1]
also = x.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)

# %% masked select and fill
x = torch.arange(4.0).view(2, 2)
mask = x > 1
a = torch.masked_select(x, mask)
b = x.masked_fill(mask, -1)
c = x.masked_fill(~mask, float("nan"))
x.masked_fill_(mask, 0)
d = x.masked_scatter(mask, torch.tensor([8.0, 9.0]))

# %% shuffling rows together
x = torch.arange(6).view(3, 2)
y = torch.tensor([0, 1, 2])
perm = torch.tensor([2, 0, 1])
x, y = x[perm], y[perm]

# %% inverse of a permutation
perm = torch.tensor([2, 0, 3, 1])
inv = torch.argsort(perm)
also = torch.empty_like(perm)
also[perm] = torch.arange(4)
same = torch.arange(4)[perm][inv]

# %% swapping
x = torch.tensor([1, 2, 3])
x[[0, 2]] = x[[2, 0]]
m = torch.arange(4).view(2, 2)
m[:, [0, 1]] = m[:, [1, 0]]

# %% shifting
x = torch.arange(5)
a = torch.roll(x, 1)
b = torch.cat([x[1:], x[:1]])
shifted = torch.zeros_like(x)
shifted[1:] = x[:-1]

# %% sliding windows
x = torch.arange(6)
w = x.unfold(0, 3, 1)
h = x.unfold(0, 2, 2)
mean = x.float().unfold(0, 3, 1).mean(-1)

# %% iterating
x = torch.arange(6).view(3, 2)
rows = [row.tolist() for row in x]
total = sum(x[:, 0])
pairs = [(int(a), int(b)) for a, b in x]
count = sum(1 for _ in x)
first, second, third = x

# %% len, in, bool
x = torch.tensor([1, 2, 3])
n = len(x)
a = 2 in x
b = 9 in x
c = bool(torch.tensor([1]))
d = bool((x > 0).all())

# %% an int tensor as an index of lists
names = ["a", "b", "c"]
i = torch.tensor([0.1, 0.7, 0.2]).argmax()
name = names[i]
also = [names[j] for j in torch.tensor([2, 0])]
sliced = names[: torch.tensor(2)]

# %% a diagonal written
x = torch.zeros(3, 3)
x.fill_diagonal_(1)
x.diagonal().add_(1)
y = torch.ones(2, 2)
y[range(2), range(2)] = 0

# %% unravel
x = torch.tensor([[1, 9], [3, 4]])
flat = x.argmax()
row, col = divmod(flat.item(), x.size(1))
idx = torch.unravel_index(flat, x.shape)

# %% scatter reduce
groups = torch.tensor([0, 1, 0, 1])
v = torch.tensor([1.0, 2.0, 3.0, 4.0])
s = torch.zeros(2).scatter_reduce(0, groups, v, reduce="sum")
m = torch.zeros(2).scatter_reduce(0, groups, v, reduce="mean", include_self=False)
top = torch.full((2,), -1.0).scatter_reduce_(0, groups, v, reduce="amax")
p = torch.ones(2).scatter_reduce(0, groups, v, reduce="prod")

# %% means of groups
groups = torch.tensor([0, 1, 0, 2])
v = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
sums = torch.zeros(3, 2).index_add(0, groups, v)
counts = torch.bincount(groups, minlength=3)
means = sums / counts.unsqueeze(1)

# %% batched gather of rows
x = torch.arange(24).view(2, 4, 3)
idx = torch.tensor([[0, 2], [3, 1]])
a = x[torch.arange(2).unsqueeze(1), idx]
b = torch.gather(x, 1, idx.unsqueeze(-1).expand(-1, -1, 3))
assert torch.equal(a, b)
