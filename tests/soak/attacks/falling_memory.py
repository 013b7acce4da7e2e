"""A random program whose address space is limited ever closer, and freed again: what does not fit
raises OutOfMemoryError (a MemoryError), the process lives, and computes the same as before."""

import random

from harness import Finding, Victim, rounds

PROGRAM = """
import errno, os, random, resource, sys, tempfile, time
import pyflame as pf

seed, seconds, threads = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
dice = random.Random(seed)
pf.set_num_threads(threads)
folder = tempfile.TemporaryDirectory()

def mapped():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * 4096

def limit(room=None):
    most = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # mapped() opens a file
    if room is not None:
        resource.setrlimit(resource.RLIMIT_AS, (mapped() + int(room), most))

def of_the_interpreter(error):
    # CPython 3.11 forgets to set MemoryError where there is no memory for the frame of a Python
    # function, in compile() and elsewhere. Of a function or a type of ours it would give the name.
    text = str(error)
    ours = "nanobind" in text or "pyflame" in text
    return not ours and text.endswith(("without exception set", "without setting an exception"))

def train():
    n, b = dice.choice([32, 256, 500]), dice.choice([1, 32, 500])
    net = pf.nn.Sequential(
        pf.nn.Linear(n, 2 * n), pf.nn.GELU(), pf.nn.Linear(2 * n, n), pf.nn.LayerNorm(n)
    )
    optimizer = pf.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(2):
        x = pf.randn(b, n)
        optimizer.zero_grad()
        (net(x) - x).pow(2).mean().backward()
        optimizer.step()

def sort():
    pf.randn(dice.choice([1000, 100_000, 1_000_000])).sort()[0][0].item()

def product():
    m, n, k = (dice.choice([3, 33, 200, 700]) for _ in range(3))
    (pf.randn(m, k) @ pf.randn(k, n)).sum().item()

def tall_product():
    (pf.randn(30_000, 20).t() @ pf.randn(30_000, 9)).sum().item()

def products():
    m, n, k = (dice.choice([3, 33, 64, 200]) for _ in range(3))
    pf.bmm(pf.randn(16, m, k), pf.randn(16, k, n)).sum().item()

def files():
    path = os.path.join(folder.name, "x")
    pf.save({"a": pf.randn(dice.choice([10, 1_000_000])), "b": [1, "x"]}, path)
    pf.load(path)["a"].sum().item()

def rows():
    x = pf.randn(dice.choice([100, 3000]), dice.choice([100, 1000]), requires_grad=True)
    (x.softmax(1).log().sum(0) * x.cumsum(1)[0]).sum().backward()

def attention():
    q, k, v = (pf.randn(2, 4, 128, 32, requires_grad=True) for _ in range(3))
    pf.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

def index():
    x = pf.arange(dice.choice([100, 1_000_000]))
    pf.cat([x[x % 3 == 0], x.flip(0)]).unique()

held = []
def hold():
    held.append(pf.zeros(dice.choice([1 << 18, 1 << 20, 1 << 22])) + 1)

def repeatable():
    pf.manual_seed(11)
    a = pf.randn(40, 50)
    return (a @ a.t()).softmax(0).tolist()

limit()
expected = repeatable() if dice.random() < 0.5 else None  # or with everything cold
acts = [train, sort, product, tall_product, products, files, rows, attention, index, hold]
done = refused = 0
room, end = 2.0 ** 28, time.monotonic() + seconds
while time.monotonic() < end:
    act = dice.choice(acts)
    limit(room)
    try:
        act()
        done += 1
    except MemoryError:
        refused += 1
        room = 2.0 ** dice.uniform(10, 28)
        if dice.random() < 0.5:
            held.clear()
    except OSError as e:
        if e.errno != errno.ENOMEM:
            raise
        refused += 1
    except ImportError as e:  # of a module that is imported where it is used
        if "cannot allocate" not in str(e).lower() and "failed to map" not in str(e):
            raise
        refused += 1
    except SystemError as e:
        if not of_the_interpreter(e):
            raise
        refused += 1
    room *= dice.uniform(0.5, 1.0)
limit()
held.clear()
again = repeatable()
if expected is not None and again != expected:
    sys.exit("other values than before memory was out")
x = pf.arange(10.0).reshape(2, 5)
if (x @ x.T).tolist() != [[30.0, 80.0], [80.0, 255.0]]:
    sys.exit("wrong values")
print("ok", done, refused)
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    for _ in rounds(seconds):
        its_seed, length = dice.randrange(2**31), min(seconds, dice.uniform(1, 8))
        source = dice.choice(["own", "onednn", "auto"])
        threads = dice.choice([1, 2, 3, 8])
        victim = Victim(PROGRAM, its_seed, length, threads, env={"PYFLAME_GEMM": source})
        ended = victim.end(length + 60)
        if ended.status != 0 or not ended.out.startswith("ok"):
            again = f"seed {its_seed}, {length:.1f} s, {threads} threads, PYFLAME_GEMM={source}"
            raise Finding(f"{again}: {ended}")
