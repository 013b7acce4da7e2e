# Products, einsum, embeddings.

# %% products
a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
r = [
    a @ b,
    torch.matmul(a, b),
    torch.mm(a, b),
    a.mm(b),
    a.matmul(b[:, 0]),
    torch.mv(a, b[:, 0]),
    b.T @ a.T,
]

# %% batches
x, y = torch.arange(12.0).view(2, 2, 3), torch.arange(12.0).view(2, 3, 2)
r = [
    torch.bmm(x, y),
    x @ y,
    x @ y[0],
    torch.matmul(x, torch.ones(3)),
    torch.baddbmm(torch.ones(2, 2, 2), x, y),
]

# %% vectors
a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
r = [
    torch.dot(a, b),
    a @ b,
    torch.outer(a, b),
    torch.cross(a, b, dim=0),
    (a * b).sum(),
    torch.linalg.norm(a - b),
    a.inner(b),
]

# %% linear by hand
x, w, b = torch.ones(2, 3), torch.arange(6.0).view(2, 3), torch.tensor([1.0, -1.0])
r = [
    x @ w.T + b,
    F.linear(x, w, b),
    torch.addmm(b, x, w.t()),
    torch.addmm(b, x, w.t(), beta=0.5, alpha=2),
]

# %% einsum of matrices
a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
r = [
    torch.einsum("ij,jk->ik", a, b),
    torch.einsum("ij->ji", a),
    torch.einsum("ij->", a),
    torch.einsum("ij->j", a),
]
s = [
    torch.einsum("ii->i", torch.eye(3)),
    torch.einsum("i,j->ij", a[0], a[1]),
    torch.einsum("ij,ij->i", a, a),
]

# %% einsum of attention
q = torch.arange(16.0).view(1, 2, 2, 4) / 10
scores = torch.einsum("bqhd,bkhd->bhqk", q, q)
out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), q)
x = torch.einsum("...ij,...jk->...ik", torch.ones(2, 3, 4), torch.ones(2, 4, 5))

# %% einsum with numbers
a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
r = [
    torch.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    torch.einsum(a, [0, 1], [1, 0]),
    torch.einsum("bi,ij,bj->b", a, torch.eye(3), a),
]

# %% tensordot and kron
a, b = torch.arange(24.0).view(2, 3, 4), torch.arange(12.0).view(3, 4)
r = [
    torch.tensordot(a, b),
    torch.tensordot(a, b, dims=([1, 2], [0, 1])),
    torch.kron(torch.eye(2), torch.ones(1, 2)),
]

# %% powers and traces
m = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
r = [
    torch.matrix_power(m, 3),
    m.trace(),
    torch.linalg.matrix_power(m, 2),
    torch.trace(m @ m),
    torch.linalg.multi_dot([m, m, m]),
]

# %% gram and projection
x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
gram = x @ x.t()
u = x[0] / x[0].norm()
proj = (x @ u).unsqueeze(1) * u

# %% embeddings
emb = nn.Embedding(4, 2)
with torch.no_grad():
    emb.weight.copy_(torch.arange(8.0).view(4, 2))
ids = torch.tensor([[0, 3], [1, 1]])
out = emb(ids).detach()
also = F.embedding(ids, emb.weight).detach()
rows = emb.weight[ids].detach()
emb(ids).sum().backward()
g = emb.weight.grad
emb = None

# %% padding index
emb = nn.Embedding(3, 2, padding_idx=0)
zero = emb.weight[0].detach()
emb(torch.tensor([0, 1, 1])).sum().backward()
g = emb.weight.grad
emb = None

# %% pretrained embeddings
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
emb = nn.Embedding.from_pretrained(w)
out = emb(torch.tensor([1, 0]))
frozen = emb.weight.requires_grad
emb2 = nn.Embedding.from_pretrained(w, freeze=False)
r = [emb2.weight.requires_grad, emb2.num_embeddings, emb2.embedding_dim]

# %% one hot
y = torch.tensor([0, 2, 1])
a = F.one_hot(y)
b = F.one_hot(y, num_classes=4).float()
c = F.one_hot(torch.tensor([[0], [1]]), 2)
back = b.argmax(dim=-1)
smooth = b * 0.9 + 0.1 / 4

# %% nearest neighbours
q, keys = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.9, 0.1], [0.0, 1.0], [1.0, 0.2]])
d = torch.cdist(q, keys)
dist, idx = d.topk(2, largest=False)
sim = F.normalize(q, dim=1) @ F.normalize(keys, dim=1).T
best = sim.argmax(dim=1)

# %% k means step
x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [6.0, 5.0]])
c = x[[0, 2]]
for _ in range(3):
    label = torch.cdist(x, c).argmin(1)
    c = torch.stack([x[label == k].mean(0) for k in range(2)])

# %% power iteration
A, v = torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.ones(2)
for _ in range(30):
    v = A @ v
    v = v / v.norm()
lam = v @ A @ v

# %% gradient of a quadratic form
A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
x = torch.tensor([1.0, -1.0], requires_grad=True)
y = 0.5 * x @ A @ x
y.backward()

# %% low rank adapters
W, A, B, x = torch.eye(3), torch.ones(1, 3), torch.zeros(3, 1), torch.arange(3.0).view(1, 3)
y = x @ W.T + (x @ A.T) @ B.T * 2.0
B[0, 0] = 1
z = x @ W.T + (x @ A.T) @ B.T * 2.0
merged = W + B @ A * 2.0

# %% quantizing to codes
x = torch.tensor([-1.0, 0.2, 0.7, 1.0])
scale = x.abs().max() / 127
q = (x / scale).round().clamp(-128, 127).to(torch.int8)
back = q.float() * scale
err = (back - x).abs().max() < scale

# %% polynomial features
x = torch.tensor([1.0, 2.0, 3.0])
X = torch.stack([x**i for i in range(3)], dim=1)
w = torch.tensor([1.0, 0.0, 2.0])
y = X @ w

# %% whitening of a covariance
x = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 5.0]])
c = x - x.mean(0, keepdim=True)
cov = c.t() @ c / (x.size(0) - 1)
assert torch.allclose(cov, torch.cov(x.T), atol=1e-6)
