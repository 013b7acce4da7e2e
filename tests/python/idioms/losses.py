# Losses.

# %% cross entropy of class indices
logits = torch.tensor([[2.0, 1.0, 0.1], [0.5, 2.5, 0.3]], requires_grad=True)
y = torch.tensor([0, 1])
loss = F.cross_entropy(logits, y)
loss.backward()
each = F.cross_entropy(logits.detach(), y, reduction="none")
also = nn.CrossEntropyLoss()(logits.detach(), y)

# %% cross entropy by hand
logits, y = torch.tensor([[2.0, 1.0, 0.1], [0.5, 2.5, 0.3]]), torch.tensor([0, 1])
a = -F.log_softmax(logits, dim=1)[range(2), y].mean()
b = F.nll_loss(F.log_softmax(logits, dim=-1), y)
c = (torch.logsumexp(logits, 1) - logits.gather(1, y[:, None]).squeeze(1)).mean()

# %% ignored and weighted classes
logits, y = torch.tensor([[2.0, 1.0], [0.5, 2.5], [1.0, 1.0]]), torch.tensor([0, -100, 1])
a = F.cross_entropy(logits, y)
b = F.cross_entropy(logits, torch.tensor([0, 1, 1]), weight=torch.tensor([1.0, 3.0]))
c = F.cross_entropy(logits, torch.tensor([0, 1, 0]), ignore_index=0)
d = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, torch.tensor([0, 1, 1]))

# %% cross entropy of probabilities
logits = torch.tensor([[2.0, 1.0], [0.5, 2.5]])
p = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
a = F.cross_entropy(logits, p)
b = -(p * F.log_softmax(logits, 1)).sum(1).mean()

# %% language model loss
logits = torch.arange(24.0).view(2, 3, 4) / 10
targets = torch.tensor([[1, 2, 3], [0, 1, 2]])
a = F.cross_entropy(logits.view(-1, 4), targets.view(-1))
b = F.cross_entropy(logits.transpose(1, 2), targets)
shifted = F.cross_entropy(logits[:, :-1].reshape(-1, 4), targets[:, 1:].reshape(-1))

# %% mean squared error
x, y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([1.5, 2.0, 1.0])
loss = F.mse_loss(x, y)
loss.backward()
r = [F.mse_loss(x, y, reduction="sum").item(), nn.MSELoss(reduction="none")(x.detach(), y)]
rmse = torch.sqrt(F.mse_loss(x.detach(), y))

# %% absolute and smooth errors
x, y = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([0.5, 1.0, 2.0])
r = [F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.5), nn.L1Loss()(x, y)]
s = [F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y, beta=2.0, reduction="none")]

# %% binary cross entropy
x, y = torch.tensor([0.5, -1.0, 2.0], requires_grad=True), torch.tensor([1.0, 0.0, 1.0])
loss = F.binary_cross_entropy_with_logits(x, y)
loss.backward()
p = torch.sigmoid(x.detach())
a = F.binary_cross_entropy(p, y)
b = nn.BCELoss(reduction="sum")(p, y)
c = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))(x.detach(), y)

# %% accuracy of binary predictions
logits, y = torch.tensor([0.5, -1.0, 2.0, -0.1]), torch.tensor([1, 0, 0, 0])
pred = (torch.sigmoid(logits) > 0.5).long()
acc = (pred == y).float().mean()
tp = ((pred == 1) & (y == 1)).sum()

# %% divergence
p, q = torch.tensor([[0.4, 0.6]]), torch.tensor([[0.5, 0.5]])
a = F.kl_div(q.log(), p, reduction="batchmean")
b = F.kl_div(q.log(), p.log(), reduction="sum", log_target=True)
c = (p * (p / q).log()).sum()

# %% distillation
student, teacher, T = torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 1.0]]), 2.0
loss = (
    F.kl_div(F.log_softmax(student / T, 1), F.softmax(teacher / T, 1), reduction="batchmean")
    * T
    * T
)

# %% of an autoencoder
mu, logvar = torch.tensor([[0.5, -0.5]]), torch.tensor([[0.1, -0.2]])
kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
recon = F.binary_cross_entropy(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]), reduction="sum")
total = recon + kld

# %% triplets and margins
a, p, n = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.9, 0.1]]), torch.tensor([[0.0, 1.0]])
r = [F.triplet_margin_loss(a, p, n), nn.TripletMarginLoss(margin=2.0)(a, p, n)]
s = [F.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([1.0]))]
t = [
    F.cosine_embedding_loss(a, p, torch.tensor([1.0])),
    F.hinge_embedding_loss(torch.tensor([0.5, 2.0]), torch.tensor([1.0, -1.0])),
]

# %% contrastive
z = F.normalize(torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.1, 0.9]]), dim=1)
sim = z @ z.T / 0.5
sim.fill_diagonal_(float("-inf"))
loss = F.cross_entropy(sim, torch.tensor([1, 0, 3, 2]))

# %% clip loss
image = F.normalize(torch.tensor([[1.0, 0.2], [0.1, 1.0]]), dim=-1)
text = F.normalize(torch.tensor([[0.9, 0.0], [0.0, 0.8]]), dim=-1)
logits = image @ text.t() * math.exp(1.0)
labels = torch.arange(2)
loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2

# %% focal loss
logits, y, gamma = torch.tensor([[2.0, 0.5], [0.1, 0.3]]), torch.tensor([0, 1]), 2
ce = F.cross_entropy(logits, y, reduction="none")
pt = torch.exp(-ce)
loss = ((1 - pt) ** gamma * ce).mean()

# %% dice
p, y = torch.tensor([[0.9, 0.1], [0.8, 0.4]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
inter = (p * y).sum()
loss = 1 - (2 * inter + 1) / (p.sum() + y.sum() + 1)

# %% masked loss
x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2, 2)
mask = torch.tensor([[1, 0], [1, 1]])
loss = (F.mse_loss(x, y, reduction="none") * mask).sum() / mask.sum()

# %% weights added to the loss
m = nn.Linear(2, 1)
nn.init.constant_(m.weight, 2.0)
nn.init.constant_(m.bias, 1.0)
l2 = sum(p.pow(2).sum() for p in m.parameters())
l1 = sum(p.abs().sum() for p in m.parameters())
total = 0.01 * l2 + 0.1 * l1
total.backward()
g = m.weight.grad

# %% integers as targets of regressions
x, y = torch.tensor([0.5, 1.5]), torch.tensor([1, 2])
r = [F.mse_loss(x, y), F.l1_loss(x, y.float()), F.mse_loss(x, y.to(x.dtype))]

# %% wrong targets
logits = torch.zeros(2, 3)
try:
    F.cross_entropy(logits, torch.tensor([0, 1, 2]))
except ValueError as e:
    error = e
try:
    F.cross_entropy(logits, torch.tensor([0, 3])).item()
except IndexError as e:
    second = e
try:
    F.binary_cross_entropy(torch.tensor([0.5]), torch.zeros(2))
except ValueError as e:
    third = e

# %% gaussian and poisson
mu, var, y = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5])
r = [
    F.gaussian_nll_loss(mu, y, var),
    F.poisson_nll_loss(mu, torch.tensor([1.0, 2.0])),
    nn.GaussianNLLLoss()(mu, y, var),
]

# %% many labels
logits, y = torch.tensor([[0.5, -0.5, 1.0]]), torch.tensor([[1.0, 0.0, 1.0]])
r = [
    F.multilabel_soft_margin_loss(logits, y),
    F.binary_cross_entropy_with_logits(logits, y, reduction="none"),
]
