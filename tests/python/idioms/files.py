# Saving and loading, pickles, copies.

# %% a state dict in a file [host]
m, n = nn.Linear(2, 2), nn.Linear(2, 2)
path = folder / "model.pt"
torch.save(m.state_dict(), path)
result = n.load_state_dict(torch.load(path, weights_only=True))
same = torch.equal(m.weight, n.weight) and torch.equal(m.bias, n.bias)
path = None

# %% a checkpoint [host]
p = nn.Parameter(torch.tensor([1.0, 2.0]))
opt = torch.optim.Adam([p], lr=0.1)
(p**2).sum().backward()
opt.step()
torch.save(
    {"epoch": 3, "model": {"p": p.detach()}, "optim": opt.state_dict(), "loss": 0.5},
    folder / "c.pt",
)
c = torch.load(folder / "c.pt", map_location="cpu", weights_only=False)
r = [c["epoch"], c["loss"], c["model"]["p"], sorted(c)]
q = nn.Parameter(torch.zeros(2))
again = torch.optim.Adam([q], lr=0.5)
again.load_state_dict(c["optim"])
s = [again.param_groups[0]["lr"], again.state[q]["exp_avg"]]
c = None

# %% tensors in files [host]
x = torch.arange(6).view(2, 3)
torch.save(x, folder / "x.pt")
y = torch.load(folder / "x.pt")
torch.save([x, {"a": torch.ones(1), "b": (1, "text", None, True)}], str(folder / "l.pt"))
z = torch.load(str(folder / "l.pt"))

# %% dtypes in files [host]
data = {
    str(d): torch.ones(2).to(d)
    for d in (
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.int64,
    )
}
torch.save(data, folder / "d.pt")
back = list(torch.load(folder / "d.pt").values())
data = None

# %% files in memory [host]
import io

buffer = io.BytesIO()
torch.save(torch.tensor([1.5, 2.5]), buffer)
buffer.seek(0)
x = torch.load(buffer)
buffer = None

# %% a missing file [host]
try:
    torch.load(folder / "nothing.pt")
except FileNotFoundError as e:
    error = e

# %% views in files [host]
x = torch.arange(10.0)
torch.save(x[2:4], folder / "v.pt")
y = torch.load(folder / "v.pt")
torch.save(x.view(2, 5).t(), folder / "t.pt")
z = torch.load(folder / "t.pt")

# %% pickled tensors [host]
import pickle

x = pickle.loads(pickle.dumps(torch.arange(3)))
p = pickle.loads(pickle.dumps(nn.Parameter(torch.ones(2))))
d = pickle.loads(pickle.dumps(torch.float16))
s = pickle.loads(pickle.dumps(torch.Size([1, 2])))

# %% deep copies
x = torch.ones(2, requires_grad=True)
y = copy.deepcopy(x)
z = copy.copy(torch.arange(3))
a, b = copy.deepcopy([torch.zeros(1), torch.ones(1)])

# %% json of numbers [host]
import json

metrics = {"loss": torch.tensor(0.25).item(), "hist": torch.arange(3).tolist()}
text = json.dumps(metrics)
back = json.loads(text)

# %% numpy files [host]
x = torch.arange(4.0)
np.save(folder / "x.npy", x.numpy())
y = torch.from_numpy(np.load(folder / "x.npy"))


# %% resuming a training [host]
def make():
    torch.manual_seed(0)
    m = nn.Linear(1, 1)
    nn.init.constant_(m.weight, 0.5)
    nn.init.zeros_(m.bias)
    return m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)


def train(m, opt, steps):
    for _ in range(steps):
        opt.zero_grad()
        (m(torch.ones(2, 1)) - 3).pow(2).mean().backward()
        opt.step()


_m, _o = make()
train(_m, _o, 2)
torch.save({"m": _m.state_dict(), "o": _o.state_dict()}, folder / "r.pt")
train(_m, _o, 2)
_m2, _o2 = make()
_c = torch.load(folder / "r.pt")
_m2.load_state_dict(_c["m"])
_o2.load_state_dict(_c["o"])
train(_m2, _o2, 2)
w = _m2.weight.detach()
assert torch.equal(_m.weight, _m2.weight)
