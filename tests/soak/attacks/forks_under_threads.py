"""fork() while threads compute: every child computes, allocates, runs backward, and ends."""

import random
import tempfile

from harness import Finding, Victim

PARENT = """
import os, random, signal, sys, threading, time
import pyflame as pf

seed, seconds = int(sys.argv[1]), float(sys.argv[2])
dice = random.Random(seed)


def products():
    a, w = pf.randn(300, 300), pf.randn(300, 300, requires_grad=True)
    while True:
        (a @ w).sum().backward()


def training():
    m = pf.nn.Sequential(pf.nn.Linear(64, 64), pf.nn.LayerNorm(64), pf.nn.ReLU(), pf.nn.Linear(64, 8))
    o = pf.optim.AdamW(m.parameters(), lr=1e-3)
    x, y = pf.randn(128, 64), pf.randint(0, 8, (128,))
    while True:
        pf.nn.functional.cross_entropy(m(x), y).backward()
        o.step()
        o.zero_grad()


def sorting():
    while True:
        pf.sort(pf.randn(100000))[0].sum().item()
        pf.ones(1000).tolist()


def hooks():
    while True:
        x = pf.randn(50000, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        (x * 2).sum().backward()


def files():
    while True:
        pf.save({"x": pf.ones(5000)}, sys.argv[3])
        pf.load(sys.argv[3])


def threads():  # threads that end, with something recorded
    while True:
        t = threading.Thread(target=lambda: pf.ones(10) + 1)
        t.start()
        t.join()


def structures():
    while True:
        x = pf.ones(10)
        for _ in range(6):
            x = random.choice([pf.exp, pf.sin, pf.cos, pf.sqrt, pf.tanh])(x * 0.1)
        x.tolist()


def child():
    w = pf.randn(40, 40, requires_grad=True)
    y = (pf.randn(300, 40) @ w).softmax(-1).sum()
    y.backward()
    assert abs(y.item() - 300) < 0.01 and w.grad.shape == (40, 40)
    assert pf.randn(100000).sort()[0].shape == (100000,)
    m = pf.nn.Linear(20, 3)
    pf.optim.SGD(m.parameters(), lr=0.1).step()
    hook = pf.ones(3, requires_grad=True)
    hook.register_hook(lambda g: g * 2)
    (hook * 3).sum().backward()
    assert hook.grad.tolist() == [6.0] * 3
    assert shared.tolist() == [1.0] * 1000


shared = pf.ones(1000)
jobs = [products, training, sorting, hooks, files, threads, structures]
for job in dice.sample(jobs, dice.randrange(2, 6)):
    threading.Thread(target=job, daemon=True).start()
end, forks = time.monotonic() + seconds, 0
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # its end, should it hang
        try:
            child()
            os._exit(0)
        except BaseException as error:
            print("in a child:", repr(error), file=sys.stderr, flush=True)
            os._exit(3)
    status = os.waitpid(pid, 0)[1]
    forks += 1
    if status:
        print(f"child {forks} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
        os._exit(4)
    time.sleep(dice.random() * 0.01)
print(forks)
os._exit(0)
"""


def run(seed: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        each = max(2.0, seconds / 3)  # other threads each time
        dice = random.Random(seed)
        for _ in range(max(1, round(seconds / each))):
            victim = Victim(PARENT, dice.randrange(10**6), each, f"{folder}/x.pf")
            ended = victim.end(each + 60)
            if ended.status != 0:
                raise Finding(str(ended))
