# Devices, dtypes, and what programs ask about them.

# %% the usual device line
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(2).to(device)
m = nn.Linear(2, 1).to(device)
same = next(m.parameters()).device == x.device
r = [device.type, str(device)]

# %% device objects
d = torch.device("cpu")
r = [d.type, d.index, d == torch.device("cpu"), repr(d), str(d), isinstance(d, torch.device)]
e = torch.device("cuda", 1)
s = [e.type, e.index, str(e)]
t = [torch.device("cuda:0") == torch.device("cuda", 0), {d: 1}[torch.device("cpu")]]

# %% moving about
x = torch.ones(2)
r = [x.cpu(), x.to("cpu").device.type, x.to(torch.device("cpu")), x.is_cuda, x.cpu().get_device()]
s = [torch.zeros(1, device="cpu"), torch.ones_like(x, device="cpu"), x.to("cpu", torch.float64)]
y = x.to(device="cpu", dtype=torch.float16, non_blocking=True)

# %% cuda questions
r = (
    [torch.cuda.is_available(), torch.cuda.device_count()]
    if not torch.cuda.is_available()
    else [False, 0]
)

# %% seeds of every kind
torch.manual_seed(0)
np.random.seed(0)
import random

random.seed(0)
torch.cuda.manual_seed(0)
torch.cuda.manual_seed_all(0)

# %% dtype facts
r = [d.is_floating_point for d in (torch.float32, torch.int64, torch.bool, torch.bfloat16)]
s = [d.itemsize for d in (torch.float32, torch.float64, torch.int8, torch.float16)]
t = [
    torch.float is torch.float32,
    torch.long is torch.int64,
    torch.half is torch.float16,
    torch.double is torch.float64,
]
u = [
    torch.float32 == torch.float,
    torch.float32 in (torch.float16, torch.float32),
    {torch.int64: "a"}[torch.long],
]

# %% questions to a tensor
x = torch.zeros(2, 3)
r = [
    x.dtype,
    x.device.type in ("cpu", "paranoid"),
    x.requires_grad,
    x.is_floating_point(),
    torch.is_tensor(x),
    x.element_size(),
    x.nbytes,
]
s = [
    isinstance(x, torch.Tensor),
    torch.is_floating_point(torch.tensor(1)),
    x.is_contiguous(),
    x.layout if False else None,
]
t = [x.dtype in (torch.float32, torch.float64), x.ndim, x.is_leaf, x.is_sparse]

# %% casting where it matters
x = torch.tensor([1, 2, 3])
mean = x.float().mean()
probs = x / x.sum()
idx = torch.tensor([0.0, 2.0]).long()
picked = x[idx]
b = x.bool()

# %% overflow and wrap
a = torch.tensor([127], dtype=torch.int8) + 1
b = torch.tensor([255], dtype=torch.uint8) + 1
c = torch.tensor([0], dtype=torch.uint8) - 1
d = torch.tensor([70000.0]).half()
e = torch.tensor([2**31]).int()

# %% promote and result types
r = [
    torch.promote_types(torch.int32, torch.float16),
    torch.result_type(torch.tensor([1]), 1.5),
    torch.can_cast(torch.float32, torch.int32),
]
s = [
    torch.result_type(torch.tensor([1, 2], dtype=torch.int8), 1),
    torch.promote_types(torch.uint8, torch.int8),
]

# %% memory of a model
m = nn.Linear(100, 10)
size = sum(p.nelement() * p.element_size() for p in m.parameters()) / 1024
n = f"{sum(p.numel() for p in m.parameters()):,}"

# %% a batch of several tensors moved
batch = {"x": torch.ones(2), "y": torch.tensor(1), "name": "a"}
moved = {k: v.to("cpu") if torch.is_tensor(v) else v for k, v in batch.items()}
pair = [t.to("cpu") for t in (torch.ones(1), torch.zeros(1))]

# %% bfloat16
x = torch.tensor([1.0, 1.001, 3.14159], dtype=torch.bfloat16)
r = [
    x,
    x.float(),
    x + 1,
    x * x,
    x.sum(),
    torch.finfo(torch.bfloat16).max,
    torch.finfo(torch.bfloat16).eps,
]

# %% threads and versions
r = [isinstance(torch.__version__, str), torch.get_num_threads() >= 1]
torch.set_num_threads(torch.get_num_threads())

# %% determinism switches
torch.use_deterministic_algorithms(True)
a = torch.are_deterministic_algorithms_enabled()
torch.use_deterministic_algorithms(False)

# %% default device
with torch.device("cpu"):
    x = torch.zeros(2)
r = x.device.type

# %% switches of backends
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
r = [
    torch.backends.cudnn.deterministic,
    torch.backends.cudnn.benchmark,
    torch.backends.mps.is_available(),
]
torch.backends.cudnn.deterministic = False


# %% a seed for everything
def set_seed(seed):
    import random

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = False
    return seed


r = set_seed(42)

# %% typed tensors [host]
x = torch.zeros(2)
r = [
    isinstance(x, torch.FloatTensor),
    isinstance(x.long(), torch.LongTensor),
    isinstance(x, torch.LongTensor),
]
s = [
    x.type("torch.DoubleTensor"),
    x.type(torch.LongTensor),
    x.type() == "torch.FloatTensor" or x.type() == "pyflame.FloatTensor",
]
