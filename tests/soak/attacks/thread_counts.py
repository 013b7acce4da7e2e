"""Numbers of threads that change all the time, in several threads: the results are those of one."""

import random

from harness import Finding, Victim, rounds

COUNTS = """
import random, sys, threading
import pyflame as pf

dice = random.Random(int(sys.argv[1]))
a, b = pf.randn(331, 207), pf.randn(207, 95)
x = pf.randn(200003)
w = pf.randn(207, 31, requires_grad=True)


def gradient():
    w.grad = None
    (a @ w).softmax(-1).square().sum().backward()
    return w.grad.tolist()


jobs = {
    "product": lambda: (a @ b).tolist(),
    "sum": lambda: x.exp().sum().item(),
    "sort": lambda: pf.sort(x)[0][::1000].tolist(),
    "norm": lambda: pf.nn.functional.layer_norm(a, (207,)).tolist(),
    "gradient": gradient,
}
pf.set_num_threads(1)
want = {name: job() for name, job in jobs.items()}
wrong = []


def work():
    for _ in range(30):
        name = dice.choice(list(set(jobs) - {"gradient"}))
        pf.set_num_threads(dice.choice([1, 2, 3, 4, 7, 8, 40]))
        if jobs[name]() != want[name]:
            wrong.append((name, pf.get_num_threads()))


threads = [threading.Thread(target=work) for _ in range(dice.randrange(3))]
for t in threads:
    t.start()
work()
for t in threads:
    t.join()
pf.set_num_threads(dice.randrange(1, 9))
if jobs["gradient"]() != want["gradient"]:
    wrong.append(("gradient", pf.get_num_threads()))
if wrong:
    raise SystemExit(f"other results than with one thread: {wrong[:5]}")
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    for _ in rounds(seconds):
        its = dice.randrange(10**6)
        ended = Victim(COUNTS, its, env={"PYFLAME_GEMM": "own"}).end(120)
        if ended.status != 0:
            raise Finding(f"seed {its}: {ended}")
