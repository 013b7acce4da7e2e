# What people catch.

# %% shapes that do not fit
errors = []
for f in (
    lambda: torch.zeros(2) + torch.zeros(3),
    lambda: torch.zeros(2, 3) @ torch.zeros(2, 3),
    lambda: torch.zeros(2, 3).view(4),
    lambda: torch.cat([torch.zeros(2, 2), torch.zeros(3, 3)]),
    lambda: torch.stack([torch.zeros(2), torch.zeros(3)]),
    lambda: torch.zeros(2, 3).expand(3, 3),
    lambda: torch.zeros(2).reshape(3),
    lambda: torch.mm(torch.zeros(2), torch.zeros(2)),
    lambda: torch.zeros(2, 3).squeeze().t().view(-1),
):
    try:
        f()
    except RuntimeError as e:
        errors.append(e)
f = None

# %% indices out of range
errors = []
for f in (
    lambda: torch.zeros(3)[3],
    lambda: torch.zeros(3)[-4],
    lambda: torch.zeros(3).sum(dim=1),
    lambda: torch.zeros(2, 2)[0, 0, 0],
    lambda: torch.zeros(2).size(1),
    lambda: torch.zeros(3)[torch.tensor([5])].sum().item(),
    lambda: torch.zeros(2, 2).transpose(0, 2),
    lambda: torch.tensor(1.0)[0],
):
    try:
        f()
    except IndexError as e:
        errors.append(e)
f = None
assert len(errors) == 8

# %% types that do not fit
errors = []
for f in (
    lambda: torch.zeros("a"),
    lambda: torch.tensor([1, 2]) + "a",
    lambda: torch.zeros(2).sum(dim="x", keepdim=1.5),
    lambda: torch.ones(2, 3, dtype=5),
    lambda: len(torch.tensor(1)),
    lambda: torch.zeros(2)["a"],
    lambda: torch.relu([1, 2]),
    lambda: torch.nn.Linear("a", 2),
    lambda: torch.cat(torch.zeros(2)),
):
    try:
        f()
    except (TypeError, IndexError) as e:
        errors.append(e)
f = None
assert len(errors) == 9

# %% truth of several values
try:
    if torch.tensor([1, 2]):
        pass
except RuntimeError as e:
    error = e
try:
    bool(torch.tensor([]))
except RuntimeError as e:
    second = e

# %% item of several values
try:
    torch.tensor([1, 2]).item()
except RuntimeError as e:
    a = e
try:
    float(torch.zeros(2))
except (RuntimeError, ValueError) as e:
    b = e

# %% dtypes that do not fit
errors = []
for f in (
    lambda: torch.zeros(2) @ torch.zeros(2, dtype=torch.float64),
    lambda: torch.tensor([1, 2]).mean(),
    lambda: F.cross_entropy(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)),
    lambda: torch.nn.Linear(2, 2)(torch.zeros(1, 2, dtype=torch.float64)),
    lambda: torch.zeros(2)[torch.tensor([0.5])],
    lambda: torch.tensor([True]) - torch.tensor([True]),
):
    try:
        f()
    except (RuntimeError, IndexError) as e:
        errors.append(e)
f = None
assert len(errors) == 6

# %% devices that are not there
try:
    torch.device("nonsense")
except RuntimeError as e:
    a = e
try:
    torch.zeros(1, device="notadevice:0")
except RuntimeError as e:
    b = e

# %% attributes that are not there
try:
    torch.zeros(1).nothing
except AttributeError as e:
    a = e
try:
    torch.no_such_function
except AttributeError as e:
    b = e
r = [hasattr(torch, "relu"), hasattr(torch.zeros(1), "numpy"), hasattr(torch, "no_such")]

# %% wrong arguments
errors = []
for f in (
    lambda: torch.arange(0, 5, 0),
    lambda: torch.zeros(-1),
    lambda: torch.topk(torch.zeros(3), 5),
    lambda: torch.multinomial(torch.tensor([-1.0, 2.0]), 1).item(),
    lambda: torch.zeros(4).chunk(0),
    lambda: torch.eye(-1),
    lambda: torch.zeros(0).max(),
    lambda: torch.zeros(2).unflatten(0, (3, 5)),
):
    try:
        f()
    except (RuntimeError, IndexError, ValueError) as e:
        errors.append(e)
f = None
assert len(errors) == 8


# %% a fallback on failure
def safe_matmul(a, b):
    try:
        return a @ b
    except RuntimeError:
        return a @ b.T


y = safe_matmul(torch.ones(2, 3), torch.ones(4, 3))

# %% finally and state
flag = []
try:
    with torch.no_grad():
        raise ValueError("stop")
except ValueError:
    flag.append(torch.is_grad_enabled())

# %% tensors of ragged lists
try:
    torch.tensor([[1, 2], [3]])
except ValueError as e:
    a = e
try:
    torch.tensor(["a"])
except (TypeError, ValueError) as e:
    _b = e

# %% comparing with None and others
x = torch.tensor([1, 2])
r = [x is None, x is not None, (x == None) if False else False, x != "a" if False else True]  # noqa: E711
s = [torch.tensor(1) == 1, 1 == torch.tensor(1)]

# %% hashing and identity
x = torch.tensor([1])
d = {x: "a"}
r = [d[x], x in [x], len({x, torch.tensor([1])})]
d = None

# %% strict broadcasting of assignments
x = torch.zeros(2, 3)
try:
    x[0] = torch.zeros(2)
except RuntimeError as e:
    a = e
try:
    x[torch.tensor([0, 1])] = torch.zeros(3, 3)
except (RuntimeError, IndexError) as e:
    b = e
