#!/usr/bin/env python3
"""Writes tests/python/pytorch_device_dtypes.json: the operations that PyTorch takes other dtypes of on GPUs
than on CPUs, and these dtypes, from the table that its own tests are made from.

    python tools/pytorch_device_dtypes.py

by a Python that has PyTorch and expecttest.
"""

import json
from pathlib import Path

from torch.testing._internal.common_methods_invocations import op_db

FILE = Path(__file__).resolve().parent.parent / "tests" / "python" / "pytorch_device_dtypes.json"
# Dtypes that are not here, and names of PyTorch's insides.
NO_DTYPE = {"complex32", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e5m2"}
INSIDE = ("torch.", "native_")

rows = {}
for op in op_db:
    gpu = op.dtypes if op.dtypesIfCUDA is None else op.dtypesIfCUDA
    name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    differ = {str(d).removeprefix("torch.") for d in set(op.dtypes) ^ set(gpu)} - NO_DTYPE
    if differ and not name.startswith(INSIDE):
        rows[name] = sorted(differ)
FILE.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
print(len(rows))
