"""Runs what most programs run, on a device, so that its GPU programs are compiled:
``python -m pyflame._common_programs DEVICE [SCRIPT]`` prints how many were compiled and how many
the cache had; SCRIPT is run instead. See :mod:`pyflame.kernel_cache`."""

import os
import runpy
import sys
import tempfile

import pyflame as pf
from pyflame.models import GPT
from pyflame.nn import functional as F


def _gpt(width, heads, amp, batch=16):
    pf.manual_seed(0)
    model = GPT(layers=1, width=width, heads=heads, context=128, dropout=0.0)
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-3)
    inputs, targets = (pf.zeros(batch, 128, dtype=pf.int64) for _ in range(2))
    for _ in range(2):
        optimizer.zero_grad()
        with pf.autocast("cuda", dtype=pf.bfloat16, enabled=amp):
            loss = model(inputs, targets)
        loss.backward()
        pf.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
    loss.item()


def _train_command(precision):
    """`pyflame train gpt` on a GPU as it is without options, but for its length and the text."""
    from ._arguments import parser
    from .training.gpt import run

    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        with open(text, "wb") as f:
            f.write(bytes(range(256)) * 512)
        command = ["train", "gpt", "--data", text, "--out", os.path.join(folder, "run")]
        command += ["--steps", "3", "--sample", "300", "--precision", precision]
        run(parser().parse_args(command))


def _mlp(dtype):
    model = pf.nn.Sequential(
        pf.nn.Linear(784, 256), pf.nn.ReLU(), pf.nn.Linear(256, 128), pf.nn.GELU(),
        pf.nn.LayerNorm(128), pf.nn.Dropout(0.1), pf.nn.Linear(128, 10),
    ).to(dtype=dtype)  # fmt: skip
    optimizer = pf.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = pf.zeros(32, 784, dtype=dtype), pf.zeros(32, dtype=pf.int64)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def _operations(dtype):
    x, row = pf.zeros(512, 256, dtype=dtype), pf.zeros(256, dtype=dtype)
    y = pf.rand(512, 256).to(dtype)
    for f in (
        lambda: x + y, lambda: x - y, lambda: x * y, lambda: x / y, lambda: x + row,
        lambda: x * row, lambda: x * 2.0, lambda: x + 1.0, lambda: -x, lambda: x.exp(),
        lambda: x.log(), lambda: x.sqrt(), lambda: x.tanh(), lambda: x.sigmoid(),
        lambda: x.relu(), lambda: F.gelu(x), lambda: F.silu(x), lambda: x.abs(),
        lambda: x > y, lambda: pf.where(x > y, x, y), lambda: x.clamp(0.0, 1.0),
        lambda: x.sum(), lambda: x.sum(0), lambda: x.sum(-1), lambda: x.mean(-1),
        lambda: x.max(), lambda: x.max(-1), lambda: x.argmax(-1), lambda: F.softmax(x, -1),
        lambda: F.log_softmax(x, -1), lambda: F.layer_norm(x, (256,)), lambda: F.rms_norm(x, (256,)),
        lambda: x.t().contiguous(), lambda: pf.cat([x, y]), lambda: pf.cat([x, y], -1),
        lambda: x[:, ::2].contiguous(), lambda: x @ y.t(), lambda: x.float(), lambda: x.cumsum(-1),
        lambda: pf.randn(512, 256, dtype=dtype), lambda: F.dropout(x, 0.5),
    ):  # fmt: skip
        f()
        pf.synchronize()


def models():
    """Training steps of small models."""
    for width, heads in ((128, 4), (384, 6)):
        for amp in (False, True):
            for batch in (16, 2):  # what is small joins more
                _gpt(width, heads, amp, batch)
    for dtype in (pf.float32, pf.bfloat16):
        _mlp(dtype)


def _common():
    models()
    if pf.get_device().type == "cuda":
        for precision in ("float32", "bfloat16"):
            _train_command(precision)
    for dtype in (pf.float32, pf.bfloat16, pf.float16):
        _operations(dtype)


def main(device, script=None):
    pf.set_device(device)
    if script:
        # As `python SCRIPT` does; the current directory is not looked into (python -P).
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")
    else:
        _common()
    pf.synchronize()
    counts = pf.debug.device_statistics(device)
    print(counts["kernels_compiled"], counts["kernels_from_disk"] + counts["kernels_from_pack"])


if __name__ == "__main__":
    main(*sys.argv[1:])
