# Datasets and loaders.

# %% a dataset of ones own
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor([float(i)]), i * i


ds = Squares(5)
r = [len(ds), ds[2]]
batches = list(DataLoader(ds, batch_size=2))

# %% tensor datasets
from torch.utils.data import DataLoader, TensorDataset

ds = TensorDataset(torch.arange(6).view(3, 2), torch.tensor([0, 1, 2]))
x, y = ds[1]
r = [len(ds), [b[0].shape for b in DataLoader(ds, batch_size=2)]]
firsts = next(iter(DataLoader(ds, batch_size=3)))

# %% drop_last and lengths
from torch.utils.data import DataLoader

r = [
    len(DataLoader(range(10), batch_size=3)),
    len(DataLoader(range(10), batch_size=3, drop_last=True)),
]
s = [b.tolist() for b in DataLoader(range(10), batch_size=4, drop_last=True)]
t = [len(DataLoader(list(range(3)))), len(DataLoader(range(4), batch_size=2).dataset)]

# %% collating by default
from torch.utils.data import default_collate

a = default_collate([{"x": torch.ones(2), "y": 1}, {"x": torch.zeros(2), "y": 2}])
b = default_collate([(1, 2.0, "a"), (3, 4.0, "b")])
c = default_collate([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
d = default_collate([[1, 2], [3, 4]])

# %% collating by hand
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

data = [(torch.tensor([1, 2, 3]), 0), (torch.tensor([4]), 1), (torch.tensor([5, 6]), 0)]


def collate(batch):
    xs, ys = zip(*batch)
    return pad_sequence(xs, batch_first=True), torch.tensor(ys), torch.tensor([len(x) for x in xs])


out = list(DataLoader(data, batch_size=2, collate_fn=collate))

# %% shuffling [own]
from torch.utils.data import DataLoader

loader = DataLoader(range(20), batch_size=20, shuffle=True)
a, b = next(iter(loader)).tolist(), next(iter(loader)).tolist()
assert sorted(a) == sorted(b) == list(range(20)) and a != b

# %% shuffling with a generator [own]
from torch.utils.data import DataLoader

orders = []
for _ in range(2):
    g = torch.Generator()
    g.manual_seed(1)
    loader = DataLoader(range(20), batch_size=20, shuffle=True, generator=g)
    orders.append([next(iter(loader)).tolist() for _ in range(2)])
assert orders[0] == orders[1] and orders[0][0] != orders[0][1]

# %% splits
from torch.utils.data import Subset, random_split

a, b = random_split(range(10), [7, 3])
r = [len(a), len(b), sorted(list(a.indices) + list(b.indices))]
c = random_split(range(10), [0.5, 0.5], generator=torch.Generator().manual_seed(0))
s = [len(x) for x in c]
sub = Subset([10, 20, 30, 40], [1, 3])
t = [len(sub), sub[0], list(sub)]

# %% concatenated datasets
from torch.utils.data import ConcatDataset

ds = ConcatDataset([[1, 2], [3, 4, 5]])
r = [len(ds), ds[0], ds[2], ds[-1], ds.cumulative_sizes]

# %% samplers
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

r = [list(SequentialSampler(range(4))), list(BatchSampler(SequentialSampler(range(5)), 2, False))]
s = [len(RandomSampler(range(5))), sorted(RandomSampler(range(5)))]
t = [b.tolist() for b in DataLoader(range(6), batch_sampler=[[0, 5], [1]])]
u = len(list(RandomSampler(range(3), replacement=True, num_samples=7)))

# %% weighted sampling [own]
from torch.utils.data import WeightedRandomSampler

labels = torch.tensor([0] * 90 + [1] * 10)
weights = 1.0 / torch.bincount(labels)[labels]
drawn = labels[list(WeightedRandomSampler(weights, 2000, replacement=True))]
assert 0.4 < drawn.float().mean().item() < 0.6

# %% iterable datasets
from torch.utils.data import DataLoader, IterableDataset


class Count(IterableDataset):
    def __iter__(self):
        yield from range(5)


r = [b.tolist() for b in DataLoader(Count(), batch_size=2)]
s = list(DataLoader(Count(), batch_size=None))

# %% transforms in a dataset
from torch.utils.data import Dataset


class Compose:
    def __init__(self, fs):
        self.fs = fs

    def __call__(self, x):
        for f in self.fs:
            x = f(x)
        return x


class Data(Dataset):
    def __init__(self, transform=None):
        self.x, self.transform = torch.arange(4.0), transform

    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = self.x[i]
        return self.transform(x) if self.transform else x


ds = Data(Compose([lambda x: x * 2, lambda x: x + 1]))
r = [ds[i].item() for i in range(len(ds))]

# %% next of a loader without end
from torch.utils.data import DataLoader

loader = DataLoader(range(3), batch_size=2)
it, seen = iter(loader), []
for _ in range(4):
    try:
        b = next(it)
    except StopIteration:
        it = iter(loader)
        b = next(it)
    seen.append(b.tolist())
it = loader = None

# %% batches by hand
x, y = torch.arange(10), torch.arange(10) * 2
perm = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
out = []
for i in range(0, len(x), 4):
    idx = perm[i : i + 4]
    out.append((x[idx], y[idx]))

# %% train and validation by index
x = torch.arange(10)
n = int(0.8 * len(x))
train, val = x[:n], x[n:]
folds = [torch.cat([x[:i], x[i + 2 :]]) for i in range(0, 10, 5)]

# %% blocks of a text
text = "hello world"
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
ix = torch.tensor([0, 3])
x = torch.stack([data[i : i + 4] for i in ix])
y = torch.stack([data[i + 1 : i + 5] for i in ix])
decoded = "".join(chars[i] for i in data.tolist())

# %% pinned memory and workers of none
from torch.utils.data import DataLoader

loader = DataLoader(range(4), batch_size=2, num_workers=0, pin_memory=False, drop_last=False)
r = [b.tolist() for b in loader]
s = [loader.batch_size, loader.num_workers, loader.drop_last]
loader = None
