# NumPy on the other side.

# %% from and to arrays [host]
a = np.array([[1.0, 2.0], [3.0, 4.0]])
x = torch.from_numpy(a)
y = torch.tensor(a)
z = x.numpy()
f = torch.from_numpy(a).float()

# %% shared memory [host]
a = np.zeros(3)
x = torch.from_numpy(a)
a[0] = 5
x[1] = 7
y = torch.tensor(a)
a[2] = 9
n = torch.ones(2)
m = n.numpy()
n.add_(1)

# %% dtypes of arrays [host]
r = [
    torch.from_numpy(np.array([1], dtype=t)).dtype
    for t in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.float16)
]
s = [torch.tensor(np.float32(1.5)), torch.tensor(np.int64(3)), torch.tensor(np.bool_(True))]
t = [
    torch.zeros(1, dtype=d).numpy().dtype.name
    for d in (torch.float32, torch.int64, torch.bool, torch.float16)
]

# %% as_tensor and asarray [host]
a = np.arange(3)
x = torch.as_tensor(a)
a[0] = 9
y = torch.asarray([1, 2])
z = np.asarray(torch.arange(3))
w = np.array(torch.ones(2))

# %% detach before numpy [host]
x = torch.ones(2, requires_grad=True)
y = (x * 2).detach().cpu().numpy()
z = x.data.numpy()
s = (x * 2).sum().item()

# %% numpy functions on tensors [host]
x = torch.tensor([1.0, 4.0, 9.0])
r = [np.mean(x.numpy()), float(np.max(x.numpy())), np.sqrt(x.numpy()), x.numpy().tolist()]

# %% numpy scalars in arithmetic
x = torch.tensor([1.0, 2.0])
r = [
    x * np.float64(2),
    x + np.int64(1),
    x / np.float32(2),
    torch.full((2,), np.pi),
    torch.arange(np.int64(3)),
]

# %% arrays as indices [host]
x = torch.arange(10)
r = [x[np.array([1, 3])], x[np.array([True, False] * 5)], x[np.int64(2)]]
_i = np.arange(4)
np.random.shuffle(_i)
s = torch.arange(4)[torch.from_numpy(_i)].sort().values

# %% stacking arrays [host]
arrays = [np.ones(2, dtype=np.float32) * i for i in range(3)]
x = torch.from_numpy(np.stack(arrays))
y = torch.stack([torch.from_numpy(a) for a in arrays])
z = torch.tensor(np.array(arrays))

# %% images [host]
img = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
x = torch.from_numpy(img).permute(2, 0, 1).float().div(255)
back = (x * 255).byte().permute(1, 2, 0).numpy()

# %% wrong strides [host]
a = np.arange(6)[::-1]
try:
    torch.from_numpy(a)
except ValueError as e:
    error = e
x = torch.from_numpy(a.copy())
y = torch.from_numpy(np.ascontiguousarray(np.arange(6).reshape(2, 3).T))

# %% wrong types [host]
try:
    torch.from_numpy([1, 2])
except TypeError as e:
    a = e
try:
    torch.from_numpy(np.array(["a"]))
except TypeError as e:
    b = e

# %% comparing with numpy [host]
x = torch.linspace(0, 1, 5)
ok = np.allclose(x.numpy(), np.linspace(0, 1, 5))
np.testing.assert_allclose(x.exp().numpy(), np.exp(np.linspace(0, 1, 5)), rtol=1e-6)

# %% lists [host]
x = torch.arange(6).view(2, 3)
r = [x.tolist(), x[0].tolist(), list(x[0]), [int(v) for v in x[1]], torch.tensor(x.tolist())]

# %% predictions collected [host]
preds = []
for chunk in torch.arange(6.0).split(2):
    preds.append((chunk * 2).numpy())
all_ = np.concatenate(preds)
mean = all_.mean()

# %% a memory view of bytes [host]
x = torch.frombuffer(bytearray(b"\x01\x02\x03"), dtype=torch.uint8)
y = torch.tensor(list(b"ab"), dtype=torch.uint8)
text = bytes(y.tolist()).decode()
