# Optimizers, schedulers, gradient clipping.

# %% plain SGD
p = nn.Parameter(torch.tensor([1.0, 2.0]))
opt = torch.optim.SGD([p], lr=0.1)
opt.zero_grad()
(p**2).sum().backward()
opt.step()

# %% SGD with everything
p = nn.Parameter(torch.tensor([1.0, -2.0]))
opt = torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
for _ in range(3):
    opt.zero_grad()
    (p**2).sum().backward()
    opt.step()
buf = opt.state[p]["momentum_buffer"]

# %% Adam
p = nn.Parameter(torch.tensor([1.0, -2.0]))
opt = torch.optim.Adam([p], lr=0.05)
for _ in range(4):
    opt.zero_grad()
    (p**2).sum().backward()
    opt.step()
keys = sorted(opt.state[p])
steps = float(opt.state[p]["step"])

# %% AdamW with decay
p = nn.Parameter(torch.tensor([1.0, -2.0]))
opt = torch.optim.AdamW([p], lr=0.05, betas=(0.8, 0.99), weight_decay=0.1, amsgrad=True)
for _ in range(3):
    opt.zero_grad(set_to_none=True)
    (p**3).sum().backward()
    opt.step()

# %% groups
m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
opt = torch.optim.SGD(
    [{"params": m[0].parameters()}, {"params": m[1].parameters(), "lr": 0.5}], lr=0.01, momentum=0.9
)
r = [[g["lr"], g["momentum"], len(g["params"])] for g in opt.param_groups]
opt.param_groups[0]["lr"] *= 10
s = opt.param_groups[0]["lr"]
text = repr(opt)
keys = list(opt.param_groups[0])

# %% no decay for biases and norms
m = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
decay = [p for n, p in m.named_parameters() if p.dim() >= 2]
none = [p for n, p in m.named_parameters() if p.dim() < 2]
opt = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": none, "weight_decay": 0.0}], lr=1e-3
)
r = [(len(g["params"]), g["weight_decay"]) for g in opt.param_groups]
decay = none = None

# %% a group added later
m = nn.Linear(1, 1)
opt = torch.optim.SGD([m.weight], lr=0.1)
opt.add_param_group({"params": [m.bias], "lr": 0.2})
r = [g["lr"] for g in opt.param_groups]

# %% closures
p = nn.Parameter(torch.tensor([3.0]))
opt = torch.optim.SGD([p], lr=0.1)


def closure():
    opt.zero_grad()
    loss = (p**2).sum()
    loss.backward()
    return loss


loss = opt.step(closure)

# %% clipping by norm
p = nn.Parameter(torch.tensor([3.0, 4.0]))
(p * p / 2).sum().backward()
norm = torch.nn.utils.clip_grad_norm_([p], max_norm=1.0)
g = p.grad.clone()
small = nn.utils.clip_grad_norm_(p, 10.0)

# %% clipping by value
p = nn.Parameter(torch.tensor([3.0, -4.0, 0.1]))
(p * p).sum().backward()
nn.utils.clip_grad_value_([p], 1.0)

# %% norm of all gradients
m = nn.Linear(2, 2)
m(torch.ones(1, 2)).sum().backward()
total = torch.norm(torch.stack([torch.norm(p.grad) for p in m.parameters()]))
also = sum(p.grad.data.norm(2).item() ** 2 for p in m.parameters()) ** 0.5

# %% state of an optimizer to and fro
p, q = nn.Parameter(torch.tensor([1.0])), nn.Parameter(torch.tensor([1.0]))
a, b = torch.optim.Adam([p], lr=0.1), torch.optim.Adam([q], lr=0.5)
p.sum().backward()
a.step()
state = a.state_dict()
b.load_state_dict(state)
r = [
    b.param_groups[0]["lr"],
    sorted(state),
    sorted(state["state"][0]),
    state["param_groups"][0]["params"],
]
s = [b.state[q]["exp_avg"], float(b.state[q]["step"])]
state = None

# %% step scheduler
p = nn.Parameter(torch.zeros(1))
opt = torch.optim.SGD([p], lr=1.0)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
lrs = []
for _ in range(6):
    opt.step()
    sched.step()
    lrs.append(sched.get_last_lr()[0])

# %% schedules of many kinds
from torch.optim import lr_scheduler as S


def rates(make, n=8):
    opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    sched, out = make(opt), []
    for _ in range(n):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return out


r = [
    rates(lambda o: S.ExponentialLR(o, 0.9)),
    rates(lambda o: S.MultiStepLR(o, [2, 5], gamma=0.1)),
    rates(lambda o: S.CosineAnnealingLR(o, T_max=5, eta_min=0.01)),
    rates(lambda o: S.LambdaLR(o, lambda e: 0.95**e)),
    rates(lambda o: S.LinearLR(o, start_factor=0.1, total_iters=4)),
    rates(lambda o: S.ConstantLR(o, factor=0.5, total_iters=3)),
    rates(lambda o: S.PolynomialLR(o, total_iters=5, power=2.0)),
    rates(lambda o: S.CosineAnnealingWarmRestarts(o, T_0=3)),
    rates(lambda o: S.OneCycleLR(o, max_lr=1.0, total_steps=9)),
    rates(
        lambda o: S.SequentialLR(
            o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], milestones=[2]
        )
    ),
    rates(lambda o: S.MultiplicativeLR(o, lambda e: 0.8)),
]


# %% warm up and cosine by hand
def lr_at(step, warmup=3, total=10, top=1.0):
    if step < warmup:
        return top * (step + 1) / warmup
    return 0.5 * top * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.0)
lrs = []
for step in range(10):
    for g in opt.param_groups:
        g["lr"] = lr_at(step)
    lrs.append(opt.param_groups[0]["lr"])
g = None

# %% plateau
opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", factor=0.5, patience=1)
lrs = []
for loss in [1.0, 0.9, 0.9, 0.9, 0.9, 0.8]:
    sched.step(loss)
    lrs.append(opt.param_groups[0]["lr"])

# %% state of a scheduler
opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
opt.step()
sched.step()
state = sched.state_dict()
again = torch.optim.lr_scheduler.StepLR(
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0), 1, gamma=0.5
)
again.load_state_dict(state)
r = [again.last_epoch, again.get_last_lr(), state["last_epoch"], state["step_size"]]
state = None


# %% an optimizer of ones own
class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["step"] = state.get("step", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])


p = nn.Parameter(torch.tensor([1.0, -1.0]))
opt = Sign([p])
(p**2).sum().backward()
opt.step()
n = opt.state[p]["step"]

# %% mistakes with optimizers
try:
    torch.optim.SGD([], lr=0.1)
except ValueError as e:
    a = e
try:
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=-1.0)
except ValueError as e:
    b = e
try:
    torch.optim.SGD(torch.zeros(1), lr=0.1)
except TypeError as e:
    c = e

# %% what has no gradient stays
p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
opt = torch.optim.AdamW([p, q], lr=0.1)
(p * 2).sum().backward()
opt.step()
n = len(opt.state)
