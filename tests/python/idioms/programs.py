# Longer pieces, of which only the assertions count: they draw start values.

# %% weights through data [own]
m = nn.Linear(3, 2)
m.bias.data.fill_(0.5)
m.weight.data.normal_(0, 0.02)
assert (m.bias == 0.5).all() and m.weight.abs().max() < 0.2
m.weight.data = torch.zeros(2, 3)
assert (m.weight == 0).all() and isinstance(m.weight, nn.Parameter)
m.weight.data.copy_(torch.ones(2, 3))
m.weight.data *= 2
assert (m.weight == 2).all()

# %% apply with types [own]
m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def init_weights(m):
    if type(m) == nn.Linear:  # noqa: E721
        nn.init.xavier_uniform_(m.weight)
        m.bias.data.zero_()


m.apply(init_weights)
assert (m[0].bias == 0).all()
assert sum(p.numel() for p in m.parameters() if p.requires_grad) == 21


# %% no grad as decorator [own]
@torch.no_grad()
def a(x):
    return x * 2


@torch.no_grad
def b(x):
    return x * 2


x = torch.ones(1, requires_grad=True)
assert not a(x).requires_grad and not b(x).requires_grad and (x * 2).requires_grad

# %% learning rate edited in place [own]
from torch.optim.lr_scheduler import StepLR

m = nn.Linear(3, 2)
optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
for group in optimizer.param_groups:
    group["lr"] = 0.3
m(torch.ones(1, 3)).sum().backward()
optimizer.step()
scheduler.step()
assert optimizer.param_groups[0]["lr"] == 0.15
assert "momentum_buffer" in optimizer.state[m.weight]


# %% optimizer of ones own [own]
class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["buf"] = torch.zeros_like(p)
                state["buf"].mul_(0.9).add_(p.grad)
                p.add_(state["buf"], alpha=-group["lr"])


m = nn.Linear(3, 2)
before = m.weight.clone()
m(torch.ones(1, 3)).sum().backward()
Momentum(m.parameters()).step()
assert torch.allclose(m.weight, before - 0.1)

# %% sinusoidal positions [own]
import pytest


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


y = PositionalEncoding(8)(torch.zeros(2, 5, 8))
assert y.shape == (2, 5, 8)
assert y[0, 3, 2].item() == pytest.approx(math.sin(3 * 10000 ** (-2 / 8)), abs=1e-6)

# %% masks [own]
mask = torch.triu(torch.full((4, 4), float("-inf")), diagonal=1)
weights = F.softmax(torch.randn(2, 4, 4) + mask, dim=-1)
assert torch.allclose(weights.sum(-1), torch.ones(2, 4))
assert (weights.triu(1) == 0).all()

# %% rotate half [own]
x = torch.arange(8.0).view(1, 8)
x1, x2 = x[..., ::2], x[..., 1::2]
y = torch.stack((-x2, x1), dim=-1).flatten(-2)
assert y.tolist() == [[-1, 0, -3, 2, -5, 4, -7, 6]]

# %% gradient accumulation [own]
m = nn.Linear(3, 1)
optimizer = torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
x = torch.randn(8, 3)
(m(x) ** 2).mean().backward()
whole = m.weight.grad.clone()
optimizer.zero_grad(set_to_none=True)
for part in x.chunk(4):
    ((m(part) ** 2).mean() / 4).backward()
assert torch.allclose(m.weight.grad, whole, atol=1e-6)
torch.nn.utils.clip_grad_norm_(m.parameters(), max_norm=1.0)
optimizer.step()

# %% frozen layers [own]
m = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
for p in m[0].parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, m.parameters()))
before = m[0].weight.clone()
m(torch.ones(1, 3)).sum().backward()
optimizer.step()
assert m[0].weight.grad is None and torch.equal(m[0].weight, before)

# %% moving average [own]
m = nn.Linear(3, 2)
ema = copy.deepcopy(m)
with torch.no_grad():
    for p in m.parameters():
        p.add_(1)
    for slow, p in zip(ema.parameters(), m.parameters()):
        slow.data = slow.data * 0.9 + p.data * 0.1
assert torch.allclose(ema.weight, m.weight - 0.9)

# %% state dict shares memory [own]
m = nn.Linear(3, 2)
state = {k.replace("module.", ""): v for k, v in m.state_dict().items()}
state["weight"][0, 0] = 5.0
assert m.weight[0, 0].item() == 5.0

# %% save and load [own]
m, other = nn.Linear(3, 2), nn.Linear(3, 2)
torch.save(m.state_dict(), folder / "model.pt")
other.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
assert torch.equal(m.weight, other.weight)

# %% activations by hook [own]
kept = {}
m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
m[0].register_forward_hook(lambda module, args, out: kept.update(a=out.detach()))
m(torch.ones(1, 3))
assert kept["a"].shape == (1, 3)
m[0].weight.register_hook(lambda g: g * 0)
m(torch.ones(1, 3)).sum().backward()
assert (m[0].weight.grad == 0).all()


# %% function of ones own [own]
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


x = torch.tensor([3.0], requires_grad=True)
Square.apply(x).sum().backward()
assert x.grad.item() == 6

# %% loader options and split [own]
from torch.utils.data import DataLoader, TensorDataset, random_split

ds = TensorDataset(torch.randn(10, 3), torch.arange(10))
loader = DataLoader(ds, batch_size=3, shuffle=True, num_workers=2, pin_memory=True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
seen = 0
for _, (x, y) in enumerate(loader):
    x, y = x.to(device, non_blocking=True), y.to(device)
    seen += len(x)
assert seen == 10
halves = [
    random_split(range(10), [5, 5], generator=torch.Generator().manual_seed(42)) for _ in range(2)
]
assert halves[0][0].indices == halves[1][0].indices

# %% formatting of a loss [own]
loss = torch.tensor(0.12345)
assert f"{loss.item():.3f}" == "0.123" and f"{loss:.4f}" in ("0.1235", "0.1234")
