#!/usr/bin/env python3
"""Trains a network on a table: `pyflame train tabular` under the name that scripts expect.

python train.py --data table.csv --target price --batch_size 8
"""

import sys

from pyflame.training.tabular import main

if __name__ == "__main__":
    sys.exit(main())
