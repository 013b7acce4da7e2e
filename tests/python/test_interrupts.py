"""Ctrl-C ends operations of the CPU that would run for minutes; what comes later computes rightly.

Products and convolutions have shares of their own for each thread, which are asked between their blocks.
"""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
import pyflame as pf
pf.set_device("cpu")
wide = lambda *shape: pf.zeros(1).expand(*shape)
N = 2**36
w = pf.ones(3)
{before}
threading.Timer({after}, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    {work}
    print("finished")
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - begin < 30 else "late")
print(pf.arange(1000.0).sum().item(), (w + 1).tolist())
"""

WORK = [
    "wide(N).sum().item()",
    "wide(64, N // 64).sum(1)[0].item()",
    "wide(N // 64, 64).amax(0)[0].item()",
    "wide(N).var().item()",
    "wide(N).argmax().item()",
    "pf.zeros(1, dtype=pf.int64).expand(N).sum().item()",
    "wide(N).norm().item()",
]


# Each takes half a minute and more on two fast cores.
PRODUCTS = [
    "m = wide(30000, 30000); (m @ m)[0, 0].item()",
    "m = wide(1).double().expand(20000, 20000); m.mm(m)[0, 0].item()",
    "m = pf.zeros(1, dtype=pf.int64).expand(8000, 8000); (m @ m)[0, 0].item()",
    "m = wide(4000, 2000, 2000); m[:400].bmm(m[:400])[0, 0, 0].item()",
    "(wide(2**19, 2**19) @ wide(2**19))[0].item()",
    "(wide(2**19) @ wide(2**19, 2**19))[0].item()",
    "pf.nn.functional.linear(wide(2**18, 8000), wide(8000, 8000)[:4000], pf.zeros(4000))[0, 0].item()",
    "pf.nn.functional.conv2d(wide(256, 512, 128, 128), wide(256, 512, 5, 5))[0, 0, 0, 0].item()",
    "pf.nn.functional.conv_transpose2d(wide(256, 256, 128, 128), wide(256, 256, 5, 5))[0, 0, 0, 0].item()",
]


# One lane, or one thread alone.
SERIAL = [
    "wide(2**29).logcumsumexp(0)[-1].item()",
    "pf.nonzero(wide(N)).tolist()",
    "wide(N).masked_select(pf.zeros(1, dtype=pf.bool).expand(N)).tolist()",
]

# What is decomposed lies in a copy, behind which the signal comes; each matrix takes a second.
BATCH = "batch = pf.randn(80, 400, 400, dtype=pf.complex128); batch.abs().sum().item()"


def interrupted(work, before="pass", after=0.3):
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    r = subprocess.run(
        [
            sys.executable,
            "-c",
            program + PROGRAM.format(work=work, before=before, after=after),
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert r.stdout.split("\n")[:2] == ["interrupted", "499500.0 [2.0, 2.0, 2.0]"], r.stderr


@pytest.mark.parametrize("work", WORK)
def test_an_operation_over_2_36_elements_is_interrupted(work):
    interrupted(work)


@pytest.mark.parametrize("work", PRODUCTS)
def test_products_and_convolutions_are_interrupted(work):
    interrupted(work)


@pytest.mark.parametrize("work", SERIAL)
def test_what_one_thread_does_alone_is_interrupted(work):
    interrupted(work)


def test_linear_algebra_is_interrupted():
    interrupted("pf.linalg.eig(batch)[0].abs().sum().item()", BATCH, 1)


WHILE_OTHERS_TRAIN = """
import os, signal, sys, threading, time
import pyflame as pf
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.setswitchinterval(1e-5)
F, nn = pf.nn.functional, pf.nn

def made(seed):
    pf.manual_seed(seed)
    m = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 5))
    return m, pf.optim.AdamW(m.parameters(), lr=0.01), pf.randn(6, 13), pf.randint(0, 5, (6,))

def train(m, o, x, y, call, steps):
    losses = []
    for _ in range(steps):
        o.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        o.step()
        losses.append(loss.item())
    return losses

def run(i):
    m = works[i][0]
    found[i] = train(*works[i], pf.compile(m, mode="reduce-overhead") if i % 2 else m, 300)

def kill():
    for _ in range(4):
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)
        heard.wait()
        heard.clear()

want = [train(*(w := made(i)), w[0], 300) for i in range(3)]
works, found, heard, hits = [made(i) for i in range(3)], [None] * 3, threading.Event(), 0
mine, killer = made(9), threading.Thread(target=kill)
threads = [killer, *(threading.Thread(target=run, args=(i,)) for i in range(3))]
for t in reversed(threads):
    t.start()
while any(t.is_alive() for t in threads):
    try:
        while any(t.is_alive() for t in threads):
            train(*mine, mine[0], 3)
    except KeyboardInterrupt:
        hits += 1
        heard.set()
print(hits, found == want, train(*(w := made(0)), w[0], 300) == want[0])
"""


def test_others_train_while_the_main_thread_is_interrupted():
    """Their steps are those of a run alone; the main thread hears each signal, and computes rightly then."""
    r = subprocess.run(
        [sys.executable, "-c", WHILE_OTHERS_TRAIN], capture_output=True, text=True, timeout=600
    )
    assert r.stdout == "4 True True\n", r.stderr
