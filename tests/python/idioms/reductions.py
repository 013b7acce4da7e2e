# Sums, statistics, sorting.

# %% sums and means
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
r = [x.sum(), x.sum(0), x.sum(dim=1), x.sum(-1, keepdim=True), x.sum(dim=(0, 1)), x.sum(axis=0)]
s = [x.mean(), x.mean(0), x.mean(dim=-1, keepdim=True), torch.mean(x, 1), x.mean((0, 1))]
t = [torch.sum(x, axis=1, keepdims=True), x.prod(), x.prod(1), torch.sum(x == 1)]

# %% sums of integers and bools
x = torch.tensor([1, 2, 3])
r = [x.sum(), x.sum(dtype=torch.float32), x.prod(), (x > 1).sum(), x.float().mean()]
s = [torch.tensor([1, 2], dtype=torch.uint8).sum(), torch.tensor([True, True]).sum().item()]

# %% largest and smallest
x = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
r = [x.max(), x.min(), x.argmax(), x.argmin(), x.argmax(dim=1), x.amax(1), x.amin(dim=0)]
values, indices = x.max(dim=1)
best = x.max(1)[1]
both = torch.max(x, dim=0).values
worst = x.min(dim=1).indices
top = x.max(dim=-1, keepdim=True)[0]
lo, hi = torch.aminmax(x)

# %% variance
x = torch.tensor([1.0, 2.0, 4.0, 8.0])
r = [x.var(), x.std(), x.var(unbiased=False), x.std(correction=0), torch.var(x, 0), x.var(False)]
var, mean = torch.var_mean(x)
std, mean2 = torch.std_mean(x, dim=0, keepdim=True)
m = x.view(2, 2).std(dim=1, unbiased=False)

# %% norms
x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
r = [
    x.norm(),
    x.norm(dim=1),
    torch.norm(x, p=1),
    x.norm(p=2, dim=-1, keepdim=True),
    x.norm(float("inf")),
]
s = [torch.linalg.norm(x), torch.linalg.vector_norm(x, dim=0), x.pow(2).sum().sqrt()]

# %% cumulative
x = torch.tensor([1, 2, 3, 4])
r = [
    x.cumsum(0),
    torch.cumprod(x, dim=0),
    x.float().cumsum(-1),
    torch.cummax(x, 0).values,
    torch.diff(x),
]
c = torch.arange(6).view(2, 3).cumsum(dim=1)

# %% any, all, counts
x = torch.tensor([[True, False], [True, True]])
r = [x.any(), x.all(), x.any(dim=1), x.all(1), torch.any(x, 0), x.sum(1), x.count_nonzero()]
s = [torch.count_nonzero(torch.tensor([0, 1, 2])), (torch.arange(5) % 2 == 0).sum().item()]

# %% median, mode, quantile
x = torch.tensor([3.0, 1.0, 2.0, 4.0, 5.0])
r = [
    x.median(),
    torch.tensor([1, 2, 2]).mode().values,
    torch.quantile(x, 0.5),
    x.quantile(torch.tensor([0.25, 0.75])),
    x.kthvalue(2),
]
s = [torch.median(torch.tensor([1.0, 2.0, 3.0, 4.0])), x.nanmedian()]

# %% sorting
x = torch.tensor([3, 1, 2])
values, indices = torch.sort(x)
down = x.sort(descending=True).values
order = torch.argsort(x)
m, _i = torch.tensor([[2, 1], [3, 4]]).sort(dim=0)
again = x[order]
rank = order.argsort()

# %% topk
x = torch.tensor([0.1, 0.5, 0.2, 0.9])
values, indices = torch.topk(x, 2)
low = x.topk(2, largest=False).values
m = torch.tensor([[1.0, 3.0, 2.0], [9.0, 7.0, 8.0]]).topk(k=2, dim=1)
kept = torch.zeros_like(x).scatter(0, indices, values)

# %% top k accuracy
logits = torch.tensor([[0.1, 0.5, 0.4], [0.9, 0.05, 0.04], [0.2, 0.3, 0.5]])
target = torch.tensor([2, 1, 0])
_, pred = logits.topk(2, 1, True, True)
correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
top1 = correct[:1].reshape(-1).float().sum(0, keepdim=True)
top2 = correct[:2].reshape(-1).float().sum(0).mul_(100.0 / 3)

# %% unique
x = torch.tensor([3, 1, 1, 2, 3])
a = torch.unique(x)
values, inverse = x.unique(return_inverse=True)
values, counts = torch.unique(x, return_counts=True)
b = torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
rows = torch.unique(torch.tensor([[1, 2], [1, 2], [0, 5]]), dim=0)
runs, lengths = torch.unique_consecutive(torch.tensor([7, 7, 8]), return_counts=True)

# %% histograms
x = torch.tensor([0, 1, 1, 3])
a = torch.bincount(x)
b = torch.bincount(x, minlength=6)
c = torch.bincount(x, weights=torch.tensor([0.5, 1.0, 1.0, 2.0]))
h = torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)

# %% confusion matrix
n, y, p = 3, torch.tensor([0, 1, 2, 2]), torch.tensor([0, 2, 2, 1])
cm = torch.bincount(y * n + p, minlength=n * n).reshape(n, n)
also = torch.zeros(n, n, dtype=torch.int64)
for i, j in zip(y, p):
    also[i, j] += 1
precision = cm.diag() / cm.sum(0)

# %% searching
edges = torch.tensor([0.0, 1.0, 2.0])
a = torch.bucketize(torch.tensor([0.5, 1.0, 5.0]), edges)
b = torch.searchsorted(edges, torch.tensor([0.5, 1.0]), right=True)
c = torch.searchsorted(torch.tensor([3.0, 1.0, 2.0]), 2.0, sorter=torch.tensor([1, 2, 0]))

# %% masked mean
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
mean = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
pooled = (x.unsqueeze(-1) * mask.unsqueeze(-1)).sum(1)

# %% standardizing columns
x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]])
z = (x - x.mean(0)) / x.std(0)
cov = torch.cov(x.T)
corr = torch.corrcoef(x.T)

# %% entropy and perplexity
p = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
entropy = -(p * torch.log(p + 1e-12)).sum(-1)
ppl = torch.exp(torch.tensor(2.0)).item()
kl = (p[0] * (p[0] / torch.tensor([0.25, 0.75])).log()).sum()

# %% reductions of nothing
x = torch.zeros(0, 3)
r = [x.sum(), x.sum(0), x.sum(1), x.prod(), x.mean(0).shape, (x > 0).all(), (x > 0).any()]

# %% cosine similarity
a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
c = F.cosine_similarity(a, b)
d = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T
e = F.pairwise_distance(a, b)

# %% weighted mean
w, x = torch.tensor([0.2, 0.8]), torch.tensor([10.0, 20.0])
a = (w * x).sum() / w.sum()
b = torch.dot(w, x)
