"""Products and conversions of sparse matrices on a GPU, and what masks keep.

The traffic of a product is what it must move: its elements, each row of the dense operand once, the result.
"""

from benchmarks.gpu_case import PART, case

ROWS, COUNT = 100_000 // PART, 1_000_000 // PART
MASK = (1 << 26) // PART


def matrix(torch, device, lengths):
    """A CSR matrix whose columns are drawn, and rows too: evenly, or by a power law, as in graphs."""
    import numpy as np

    rng = np.random.default_rng(0)
    share = np.ones(ROWS) if lengths == "even" else rng.permutation((1 + np.arange(ROWS)) ** -0.9)
    places = rng.choice(ROWS, COUNT, p=share / share.sum()) * ROWS + rng.integers(0, ROWS, COUNT)
    rows, columns = divmod(np.unique(places), ROWS)  # what is drawn twice is there once
    starts = np.searchsorted(rows, np.arange(ROWS + 1))
    starts, columns = (torch.tensor(p, device=device) for p in (starts, columns))
    values = torch.rand(columns.numel(), device=device)
    return torch.sparse_csr_tensor(starts, columns, values, (ROWS, ROWS))


def product_bytes(width):
    return COUNT * (8 + 4) + ROWS * 8 + 2 * ROWS * width * 4


def product(lengths, width):
    def make(torch, device):
        a, x = matrix(torch, device, lengths), torch.randn(ROWS, width, device=device)
        return lambda: a @ x

    make.__name__ = f"sparse_{lengths}_{width}"
    bytes_ = product_bytes(width)
    case("sparse", f"CSR @ x, {COUNT} elements, {lengths} rows, {width} columns", traffic=bytes_,
         copy=max(bytes_ // 2, 1 << 24))(make)  # fmt: skip


for lengths in ("even", "power-law"):
    for width in (1, 8, 64, 256):
        product(lengths, width)


@case("sparse", f"gradients of CSR @ x, {COUNT} elements, 64 columns", traffic=2 * product_bytes(64),
      copy=product_bytes(64))  # fmt: skip
def sparse_gradient(torch, device):
    a, x = matrix(torch, device, "even"), torch.randn(ROWS, 64, device=device).requires_grad_()
    g = torch.randn(ROWS, 64, device=device)

    def run():
        x.grad = None
        (a @ x).backward(g)
        return x.grad

    return run


@case("sparse", f"CSR to COO, {COUNT} elements", traffic=COUNT * 24 + ROWS * 8, copy=1 << 24)
def csr_to_coo(torch, device):
    a = matrix(torch, device, "even")
    return lambda: a.to_sparse_coo()


@case("sparse", f"COO coalesced, {COUNT} elements", traffic=2 * COUNT * 20, copy=COUNT * 20)
def coalesced(torch, device):
    at = torch.randint(0, ROWS, (2, COUNT), device=device)
    a = torch.sparse_coo_tensor(at, torch.rand(COUNT, device=device), (ROWS, ROWS))
    return lambda: a.coalesce()


def kept(share, title):
    bytes_ = MASK * (1 + share * 8)

    def places(torch, device):
        mask = torch.rand(MASK, device=device) < share
        return lambda: torch.nonzero(mask)

    def values(torch, device):
        mask, x = torch.rand(MASK, device=device) < share, torch.randn(MASK, device=device)
        return lambda: x[mask]

    for make, name in ((places, "nonzero"), (values, "x[mask]")):
        make.__name__ = f"{name}_{title}"
        case("masks", f"{name}, {MASK} elements, {title}", traffic=int(bytes_), copy=MASK * 4)(make)


for share, title in ((0.001, "few"), (0.5, "half"), (1.0, "all")):
    kept(share, title)
