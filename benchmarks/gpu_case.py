"""How a case that is measured on a GPU is registered; gpu_cases.py has kernels, gpu_steps.py whole steps.

The bars are those of one H200. With PYFLAME_BENCH_SMALL=1 the cases fit a CPU, and have no bars.
"""

import os

from benchmarks.cases import Case

CASES = {}
SMALL = os.environ.get("PYFLAME_BENCH_SMALL") == "1"
PART = 16 if SMALL else 1  # of the rows
HALF = 4 if SMALL else 1  # of each side of a square


def case(group, title, **facts):
    if SMALL:
        facts = {k: v for k, v in facts.items() if not k.startswith("bar_")}

    def register(make):
        CASES[make.__name__] = Case(make, group, title, **facts)
        return make

    return register
