"""No result depends on the number of threads: products, every operation's kernels, training."""

import os
import time

import guards
import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.cpu_only

# PYFLAME_TEST_THREADS=all: every number up to 8, more shapes, more cases of each operation.
ALL = os.environ.get("PYFLAME_TEST_THREADS") == "all"
COUNTS = range(2, 9) if ALL else (3, 8)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = pf.get_num_threads()
    yield
    pf.set_num_threads(before)


def bits(x):
    """Values as bytes: NaN equals NaN, 0.0 is not -0.0."""
    if isinstance(x, pf.Tensor):
        x = x.detach()
        if x.dtype is pf.bfloat16:
            x = x.float()
        return x.numpy().tobytes()
    if isinstance(x, (tuple, list)):
        return [bits(y) for y in x]
    return repr(x)


def same_for_all(what, run, counts=COUNTS):
    pf.set_num_threads(1)
    once = bits(run())
    for n in counts:
        pf.set_num_threads(n)
        assert bits(run()) == once, f"{what}: {n} threads give other bits than one"


# ---- products ----------------------------------------------------------------------------------

ADVERSARIAL = [
    # m, n, k
    (3, 7, 20000),
    (7, 3, 40000),
    (64, 64, 20000),
    (2, 900, 9000),
    (900, 2, 9000),
    (1, 3000, 700),
    (3000, 1, 700),
    (32, 256, 256),
    (256, 784, 32),
    (378, 378, 800),
    (379, 377, 1500),
    (1, 1, 100000),
    (513, 65, 64),
    (48, 129, 2049),
]
DTYPES = [pf.float32, pf.float32, pf.float32, pf.bfloat16, pf.float16, pf.float64, pf.int8]


def operand(rng, shape, dtype):
    if dtype is pf.int8:
        return pf.tensor(rng.integers(-100, 100, shape)).to(pf.int8)
    return pf.tensor(rng.standard_normal(shape).astype(np.float32)).to(dtype)


def laid_out(rng, batch, rows, cols, dtype):
    """A matrix, or a batch of them, in one of the layouts that programs have."""
    way = rng.integers(4)
    head = [batch] if batch > 1 else []
    if way == 0:
        return operand(rng, (*head, rows, cols), dtype)
    if way == 1:
        return operand(rng, (*head, cols, rows), dtype).transpose(-1, -2)
    if way == 2:
        return operand(rng, (*head, rows, cols + 3), dtype)[..., :cols]
    return operand(rng, (*head, rows, cols * 2), dtype)[..., ::2]


def product(rng, m, n, k, batch, dtype):
    a, b = laid_out(rng, batch, m, k, dtype), laid_out(rng, batch, k, n, dtype)
    if rng.integers(3) == 0 and dtype is not pf.int8:
        bias = operand(rng, (n,), dtype)
        return lambda: (
            pf.nn.functional.linear(a, b.transpose(-1, -2), bias) if batch == 1 else a @ b
        )
    return lambda: a @ b


@pytest.mark.parametrize("m, n, k", ADVERSARIAL)
def test_products_of_awkward_shapes(m, n, k):
    rng = np.random.default_rng(m * n + k)
    for _ in range(2):
        same_for_all((m, n, k), product(rng, m, n, k, 1, pf.float32))


@pytest.mark.parametrize("seed", range(200 if ALL else 4))
def test_products_of_random_shapes(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        batch = int(rng.choice([1, 1, 1, 2, 5, 40]))
        m, n, k = (int(2 ** rng.uniform(0, 10)) for _ in range(3))
        if batch * m * n * k > 2e7:
            k = max(1, int(2e7 / (batch * m * n)))
        dtype = DTYPES[rng.integers(len(DTYPES))]
        same_for_all((dtype, batch, m, n, k), product(rng, m, n, k, batch, dtype))


def test_a_tall_product_is_exact_enough():
    """Cut along k, its parts are added up."""
    rng = np.random.default_rng(5)
    for m, n, k in [(3, 7, 20000), (64, 64, 20000), (40, 30, 50000)]:
        a, b = rng.standard_normal((k, m)), rng.standard_normal((k, n))
        a, b = a.astype(np.float32), b.astype(np.float32)
        bias = rng.standard_normal(n).astype(np.float32)
        want = a.T.astype(np.float64) @ b + bias
        at, bt = pf.tensor(a).t(), pf.tensor(b)
        got = pf.addmm(pf.tensor(bias), at, bt).numpy()
        scale = np.abs(a.T).astype(np.float64) @ np.abs(b)
        assert np.max(np.abs(got - want) / scale) < 1e-6


# ---- every operation ---------------------------------------------------------------------------

ROWS = {}
for _row in pf.ops.table():
    if _row["family"] != "test" and "Tensor" in _row["schema"].split("->")[0]:
        ROWS.setdefault(_row["name"], []).append(_row)
ANYTHING = {"empty", "empty_like", "new_empty", "empty_strided"}  # any values are right
# Large enough for several threads; more dimensions, odd sizes, one long row and many short ones.
SHAPES = [(181, 211), (70001,), (3, 5, 50, 90), (20011, 3), (3, 20011)]
# Results grow with the square of the operands, or faster.
GROWING = {"addr", "addr_", "cartesian_prod", "cdist", "diag", "diag_embed", "diagflat", "ger", "kron", "meshgrid", "outer", "pdist", "vander"}  # fmt: skip
REFUSALS = (pf.PyFlameError, TypeError, NotImplementedError)


def calls(row, shape, dtype):
    """A function that calls the operation anew, with gradients; None where no arguments fit."""
    seed = len(row["schema"])

    def run():
        rng = np.random.default_rng(seed)
        call, made = guards.arguments(row, dtype, shape, False, False, rng)
        pf.manual_seed(seed)
        leaves = [t for t in made if t.dtype.is_floating_point and not row["name"].endswith("_")]
        for t in leaves:
            t.requires_grad_()
        out = pf.ops.get(row["name"])(**call)
        out = out if isinstance(out, (tuple, list)) else [out]
        results = [t for t in out if isinstance(t, pf.Tensor)]
        wanted = [t for t in results if t.requires_grad]
        if wanted:
            pf.autograd.backward(wanted, [pf.ones_like(t) for t in wanted])
        return results, [t.grad for t in leaves], [t.detach() for t in made]

    try:
        run()
    except REFUSALS:
        return None
    return run


@pytest.mark.parametrize("name", [n for n in ROWS if not n.startswith("_") and n not in ANYTHING])
def test_operation(name):
    if name == "combinations":
        pytest.skip("of so many elements it has too many results")
    pf.set_num_threads(1)
    done = 0
    for row in ROWS[name]:
        for shape in [(301,), (90, 51)] if name in GROWING else SHAPES:
            for dtype in (pf.float32, pf.bfloat16, pf.int64):
                start = time.monotonic()
                run = calls(row, shape, dtype)
                if run is None:
                    continue
                same_for_all((row["schema"], shape, dtype), run, COUNTS if ALL else (3,))
                done += 1
                if time.monotonic() - start > 0.1:
                    return  # a costly one has been tried
                break
            if done >= (9 if ALL else 1):
                return
    if not done:
        pytest.skip("no arguments of one shape fit")


# ---- what has more arguments -------------------------------------------------------------------


def attention(causal, dtype):
    pf.manual_seed(1)
    q, k, v = (pf.randn(2, 3, 130, 40).to(dtype).detach().requires_grad_() for _ in range(3))
    o = pf.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    o.float().pow(2).sum().backward()
    return o, q.grad, k.grad, v.grad


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal, dtype):
    same_for_all("attention", lambda: attention(causal, dtype))


def test_embedding_and_norms():
    def run():
        pf.manual_seed(2)
        table = pf.nn.Embedding(300, 65)
        norm, rms = pf.nn.LayerNorm(65), pf.nn.RMSNorm(65)
        index = pf.randint(0, 300, (40, 61))
        x = norm(table(index))
        y = rms(x.pow(2))
        (y.pow(3).sum() + x.softmax(-1).log().sum()).backward()
        return y, table.weight.grad, norm.weight.grad, norm.bias.grad, rms.weight.grad

    same_for_all("embedding, norms", run)


def test_scatter_with_many_to_one():
    def run():
        pf.manual_seed(3)
        index, x = pf.randint(0, 7, (50000,)), pf.randn(50000)
        rows = pf.randint(0, 9, (3000,))
        return (
            pf.zeros(7).scatter_add(0, index, x),
            pf.zeros(9, 33).index_add(0, rows, pf.randn(3000, 33)),
            pf.zeros(7).index_put((index,), x, accumulate=True),
            x.sort(descending=True),
            pf.randperm(30011),
            x.to(pf.float64).cumsum(0),
        )

    same_for_all("scatter", run)


# ---- training ----------------------------------------------------------------------------------


def train(net, batch, loss_of, steps):
    optimizer = pf.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(net, batch())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + list(net.parameters())


@pytest.mark.parametrize("size", [33, 200])
def test_training_an_mlp(size):
    def run():
        pf.manual_seed(4)
        net = pf.nn.Sequential(
            pf.nn.Linear(784, 256), pf.nn.GELU(), pf.nn.Linear(256, 128), pf.nn.ReLU(),
            pf.nn.LayerNorm(128), pf.nn.Dropout(0.1), pf.nn.Linear(128, 10),
        )  # fmt: skip
        target = pf.arange(size) % 10
        return train(
            net,
            lambda: pf.randn(size, 784),
            lambda net, x: pf.nn.functional.cross_entropy(net(x), target),
            6,
        )

    same_for_all("MLP", run, (2, 3, 4, 8) if ALL else (2, 3))


class Block(pf.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = pf.nn.LayerNorm(width), pf.nn.LayerNorm(width)
        self.qkv, self.out = pf.nn.Linear(width, 3 * width), pf.nn.Linear(width, width)
        self.up, self.down = pf.nn.Linear(width, 4 * width), pf.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (
            p.view(b, t, self.heads, w // self.heads).transpose(1, 2)
            for p in self.qkv(self.one(x)).chunk(3, dim=-1)
        )
        y = pf.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(pf.nn.functional.gelu(self.up(self.two(x))))


def test_training_a_gpt():
    def run():
        pf.manual_seed(5)
        net = pf.nn.Sequential(
            pf.nn.Embedding(97, 48), Block(48, 3), Block(48, 3), pf.nn.LayerNorm(48),
            pf.nn.Linear(48, 97),
        )  # fmt: skip

        def loss_of(net, index):
            logits = net(index[:, :-1])
            return pf.nn.functional.cross_entropy(logits.reshape(-1, 97), index[:, 1:].reshape(-1))

        return train(net, lambda: pf.randint(0, 97, (6, 66)), loss_of, 4)

    same_for_all("GPT", run, (2, 3, 4, 8) if ALL else (2, 3))
