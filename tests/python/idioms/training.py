# Loops of training and evaluation.

# %% the usual loop
x = torch.linspace(-1, 1, 16).unsqueeze(1)
y = 2 * x - 0.5
model = nn.Linear(1, 1)
nn.init.zeros_(model.weight)
nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = nn.MSELoss()
losses = []
for epoch in range(10):
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
w, b = model.weight.item(), model.bias.item()

# %% a classifier learns [own]
x = torch.cat([torch.randn(50, 2) - 2, torch.randn(50, 2) + 2])
y = torch.cat([torch.zeros(50), torch.ones(50)]).long()
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
model.eval()
with torch.no_grad():
    acc = (model(x).argmax(1) == y).float().mean().item()
assert acc > 0.9

# %% batches of a loader
from torch.utils.data import DataLoader, TensorDataset

x, y = torch.arange(10.0).view(10, 1), torch.arange(10.0).view(10, 1) * 3
model = nn.Linear(1, 1, bias=False)
nn.init.ones_(model.weight)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
for xb, yb in DataLoader(TensorDataset(x, y), batch_size=4):
    opt.zero_grad()
    loss = F.mse_loss(model(xb), yb)
    loss.backward()
    opt.step()
    total += loss.item() * xb.size(0)
average = total / len(x)

# %% evaluation
model = nn.Linear(2, 2)
with torch.no_grad():
    model.weight.copy_(torch.eye(2))
    model.bias.zero_()
data = [
    (torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1])),
    (torch.tensor([[3.0, 4.0]]), torch.tensor([0])),
]
model.eval()
correct = total = 0
with torch.no_grad():
    for xb, yb in data:
        pred = model(xb).max(1)[1]
        total += yb.size(0)
        correct += (pred == yb).sum().item()
acc = 100.0 * correct / total

# %% accumulating gradients
model = nn.Linear(1, 1)
nn.init.ones_(model.weight)
nn.init.zeros_(model.bias)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 2
for i, xb in enumerate(
    [torch.ones(2, 1), torch.zeros(2, 1), torch.ones(2, 1) * 2, torch.ones(2, 1)]
):
    loss = model(xb).pow(2).mean() / steps
    loss.backward()
    if (i + 1) % steps == 0:
        opt.step()
        opt.zero_grad()
w = model.weight.detach()

# %% early stopping
best, patience, bad, stopped = float("inf"), 2, 0, None
for epoch, val in enumerate([1.0, 0.8, 0.9, 0.85, 0.7]):
    if val < best:
        best, bad = val, 0
    else:
        bad += 1
        if bad >= patience:
            stopped = epoch
            break

# %% keeping the best weights
model = nn.Linear(1, 1)
best_loss, best_state = float("inf"), None
for value in [3.0, 1.0, 2.0]:
    nn.init.constant_(model.weight, value)
    nn.init.zeros_(model.bias)
    loss = model(torch.ones(1, 1)).item()
    if loss < best_loss:
        best_loss, best_state = loss, copy.deepcopy(model.state_dict())
model.load_state_dict(best_state)
w = model.weight.item()

# %% averages of weights
model = nn.Linear(1, 1)
nn.init.zeros_(model.weight)
ema = copy.deepcopy(model)
for _p in ema.parameters():
    _p.requires_grad_(False)
nn.init.ones_(model.weight)
with torch.no_grad():
    for _e, _p in zip(ema.parameters(), model.parameters()):
        _e.mul_(0.9).add_(_p, alpha=0.1)
w = ema.weight.clone()

# %% fine tuning with two rates
body, head = nn.Linear(2, 2), nn.Linear(2, 1)
opt = torch.optim.SGD(
    [{"params": body.parameters(), "lr": 1e-4}, {"params": head.parameters()}], lr=1e-2
)
lrs = [g["lr"] for g in opt.param_groups]
for _p in body.parameters():
    _p.requires_grad = False
active = [p for g in opt.param_groups for p in g["params"] if p.requires_grad]
n = len(active)
active = None

# %% mixed precision on the CPU [host]
model = nn.Linear(2, 2)
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = model(torch.ones(1, 2))
    d = out.dtype
scaler = torch.amp.GradScaler("cpu", enabled=False)
loss = model(torch.ones(1, 2)).sum()
scaler.scale(loss).backward()
opt = torch.optim.SGD(model.parameters(), lr=0.0)
scaler.step(opt)
scaler.update()
g = model.bias.grad
out = loss = None

# %% a running log
log = collections.defaultdict(list)
for step in range(3):
    metrics = {"loss": torch.tensor(1.0 / (step + 1)), "acc": torch.tensor(step / 3)}
    for k, v in metrics.items():
        log[k].append(v.item())
means = {k: sum(v) / len(v) for k, v in log.items()}
line = " | ".join(f"{k}: {v:.4f}" for k, v in means.items())


# %% an average meter
class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


_m = AverageMeter()
_m.update(torch.tensor(2.0), 4)
_m.update(torch.tensor(1.0), 4)
avg = _m.avg
text = f"{avg:.2f}"

# %% teacher and student
teacher, student = nn.Linear(2, 2), nn.Linear(2, 2)
student.load_state_dict(teacher.state_dict())
with torch.no_grad():
    t = teacher(torch.ones(1, 2))
loss = F.mse_loss(student(torch.ones(1, 2)), t)
loss.backward()
g = student.weight.grad
t = None

# %% generator and discriminator [own]
g, d = nn.Linear(2, 2), nn.Linear(2, 1)
og, od = torch.optim.Adam(g.parameters(), lr=1e-2), torch.optim.Adam(d.parameters(), lr=1e-2)
for _ in range(3):
    fake = g(torch.randn(4, 2))
    od.zero_grad()
    loss_d = F.binary_cross_entropy_with_logits(d(torch.ones(4, 2)), torch.ones(4, 1))
    loss_d = loss_d + F.binary_cross_entropy_with_logits(d(fake.detach()), torch.zeros(4, 1))
    loss_d.backward()
    assert g.weight.grad is None or True
    od.step()
    og.zero_grad()
    loss_g = F.binary_cross_entropy_with_logits(d(fake), torch.ones(4, 1))
    loss_g.backward()
    og.step()
assert g.weight.grad is not None and loss_d.item() > 0

# %% policy gradient
logits = nn.Parameter(torch.zeros(3))
actions, rewards = torch.tensor([0, 2, 1]), torch.tensor([1.0, 0.5, -1.0])
returns, R = [], 0.0
for r in reversed(rewards.tolist()):
    R = r + 0.9 * R
    returns.insert(0, R)
returns = torch.tensor(returns)
logp = F.log_softmax(logits, dim=0)[actions]
loss = -(logp * returns).sum()
loss.backward()

# %% q learning targets
q = torch.tensor([[1.0, 2.0], [0.5, 0.2]], requires_grad=True)
nq = torch.tensor([[0.0, 3.0], [1.0, 1.0]])
a, r, done = torch.tensor([[0], [1]]), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
with torch.no_grad():
    target = r + 0.99 * nq.max(1).values * (1 - done)
loss = F.smooth_l1_loss(q.gather(1, a).squeeze(1), target)
loss.backward()

# %% nan checks
loss = torch.tensor(float("nan"))
bad = [torch.isnan(loss).item(), math.isnan(loss.item()), not torch.isfinite(loss)]
ok = torch.isfinite(torch.tensor([1.0, 2.0])).all().item()
