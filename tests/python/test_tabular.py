"""`pyflame train tabular`: what it learns, what it records, how it goes on, and tables that are none."""

import csv
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf
from pyflame import cli
from pyflame.models import TabularNet
from pyflame.training import find_batch_size, tabular
from pyflame.training.records import Records
from pyflame.training.tables import Table

pytestmark = pytest.mark.cpu_only  # its tables come from NumPy; the loop itself is test_cli's
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def numbers(tmp_path):
    """y = 3a - 2b + c's kind, with gaps."""
    rng = np.random.default_rng(0)
    path = tmp_path / "numbers.csv"
    with open(path, "w") as f:
        f.write("name,a,b,kind,empty,y\n")
        for i in range(400):
            a, b = rng.normal(10, 3), rng.normal()
            kind = "red green blue".split()[i % 3]
            y = 3 * a - 2 * b + {"red": 5, "green": 0, "blue": -5}[kind]
            f.write(f"row {i},{a if i % 50 else ''},{b},{kind},,{y if i != 7 else 'NA'}\n")
    return path


def run(*args, code=0):
    assert cli.main(["train", "tabular", *map(str, args)]) == code


def records(directory):
    return [json.loads(line) for line in (Path(directory) / "log.jsonl").read_text().splitlines()]


def test_a_regression(numbers, tmp_path, capsys):
    run("--data", numbers, "--epochs", 20, "--out", tmp_path / "r", "--hidden_layers", "32,16")
    out = capsys.readouterr().out
    assert "left out 1 rows in which 'y' is missing" in out
    assert "left out column 'name'" in out and "left out column 'empty'" in out
    assert "column 'a': its mean for 8 missing values" in out
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    assert result["rmse"] < 0.25 * result["baseline"], result
    assert f"off by {result['rmse']:.4g}" in out
    rows = list(csv.DictReader(open(tmp_path / "r" / "metrics.csv")))
    evaluated = [e for e in records(tmp_path / "r") if "epoch" in e]
    assert len(evaluated) == 20 and evaluated[-1]["rmse"] == result["rmse"]
    assert [float(r["rmse"]) for r in rows if r["epoch"]] == [e["rmse"] for e in evaluated]
    assert len(rows) == len(records(tmp_path / "r"))


def test_both_spellings_and_files_of_options(tmp_path, capsys):
    run("--epochs", 1, "--batch-size", 64, "--hidden-layers", "8", "--out", tmp_path / "a")
    (tmp_path / "o.toml").write_text("epochs = 1\nbatch-size = 64\nhidden_layers = [8]\nseed = 3\n")
    run("--seed", 1, "--config", tmp_path / "o.toml", "--out", tmp_path / "b")
    (tmp_path / "o.json").write_text(
        json.dumps({"batch_size": 8, "epochs": 2, "data_fraction": 0.01, "hidden_layers": "32,16"})
    )
    run(f"--config={tmp_path / 'o.json'}", "--out", tmp_path / "c")
    configs = [json.loads((tmp_path / n / "config.json").read_text()) for n in "abc"]
    assert configs[0] == configs[1]  # the command line has the last word
    assert configs[2]["hidden_layers"] == [32, 16] and configs[2]["epochs"] == 2
    assert "14 rows to learn from, 4 held out" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"batch_size": 8', "cannot be read"),
        ('{"batchsize": 8}', "unknown key 'batchsize'"),
        ('{"batch_size": {"a": 1}}', "for 'batch_size'"),
        ("[8]", "is no table"),
        ('{"batch_size": "many"}', "many"),
    ],
)
def test_bad_files_of_options(text, says, tmp_path, capsys):
    path = tmp_path / "o.json"
    path.write_text(text)
    assert cli.main(["train", "tabular", "--config", str(path)]) in (1, 2)
    assert says in capsys.readouterr().err
    assert cli.main(["train", "tabular", "--config", str(tmp_path / "none")]) == 1


def test_the_digits_are_not_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    run("--out", tmp_path / "run", code=1)
    assert "pip install scikit-learn, or name a table with --data" in capsys.readouterr().err


def test_train_py(tmp_path):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "python"), *sys.path]))
    done = subprocess.run(
        [sys.executable, ROOT / "train.py", "--batch_size", "8", "--epochs", "1", "--data_fraction",
         "0.1", "--num_workers", "2", "--pin_memory"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0 and "held-out" in done.stdout, done.stdout + done.stderr


def job(table, **config):
    base = dict(
        hidden_layers=[8], dropout=0.0, mixed_precision=False, batch_size=8, accumulation=1, epochs=3,
        lr=1e-2, weight_decay=0.0, clip=0, patience=0, seed=1,
    )  # fmt: skip
    return tabular.Tabular({**base, **config}, table)


def test_accumulated_gradients_are_those_of_one_batch(numbers):
    table = Table(str(numbers))
    assert len(table.train[0]) % 64  # the last step has fewer rows
    one, many = job(table, batch_size=64), job(table, batch_size=8, accumulation=8)
    assert one.total == many.total
    for _ in range(one.total):
        a, b = one.train_step().item(), many.train_step().item()
        assert abs(a - b) < 1e-4 * abs(a)
    for p, q in zip(one.parameters, many.parameters):
        assert pf.allclose(p, q, rtol=1e-2, atol=1e-3)


def test_workers_give_the_same_batches(numbers):
    table = Table(str(numbers))
    base = dict(job(table).config)
    losses = []
    for workers in (0, 2):
        trained = tabular.Tabular(base, table, num_workers=workers, pin_memory=True)
        losses.append([trained.train_step().item() for _ in range(50)])
    assert losses[0] == losses[1]


def test_mixed_precision_is_bfloat16_within_and_float32_without():
    seen = []

    def look(module, inputs, output):
        seen.append((type(module).__name__, output.dtype))

    net = TabularNet(6, [128, 64], use_mixed_precision=True)
    assert sum(p.numel() for p in net.parameters()) == 7 * 128 + 129 * 64 + 65 + 2 * 128 + 2 * 64
    for layer in (*net.layers, *net.layer_norms):
        layer.register_forward_hook(look)
    x = pf.randn(5, 6)
    assert net(x).shape == (5,) and net(x).dtype == pf.float32
    assert ("Linear", pf.bfloat16) in seen and ("LayerNorm", pf.float32) in seen
    net.use_mixed_precision = False
    seen.clear()
    net(x)
    assert {dtype for _, dtype in seen} == {pf.float32}
    y, optimizer = x[:, 0] * 2 - x[:, 1], pf.optim.AdamW(net.parameters(), lr=1e-2)
    net.use_mixed_precision = True
    losses = []
    for _ in range(50):
        loss = ((net(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    with pytest.raises(pf.ValueError, match="above 0"):
        TabularNet(0)


OPTIONS = ["--epochs", 6, "--dropout", 0.1, "--log_interval", 1, "--hidden_layers", "16",
           "--gradient_accumulation_steps", 2]  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_and_resumed_is_the_same_run(how, numbers, tmp_path):
    common = ["--data", numbers, *OPTIONS, "--checkpoint_interval", 7]
    run(*common, "--out", tmp_path / "whole")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "python"), *sys.path]))
    command = [sys.executable, "-m", "pyflame", "train", "tabular", *common, "--out", "cut"]
    process = subprocess.Popen(
        list(map(str, command)), cwd=tmp_path, env=env, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + HANG
    while not list((tmp_path / "cut").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(how)
    if process.wait(HANG) != 0:  # it may have been too quick for us
        run("--resume_from_checkpoint", "--out", tmp_path / "cut")
    assert records(tmp_path / "cut") == records(tmp_path / "whole")
    for name in ("result.json", "metrics.csv"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_resumed_from_an_older_checkpoint_is_a_branch(numbers, tmp_path, capsys):
    out = tmp_path / "run"
    run("--data", numbers, *OPTIONS, "--checkpoint_interval", 10, "--keep", 9, "--out", out)
    last = records(out)[-1]
    before = sorted(p.name for p in out.iterdir())
    run("--resume_from_checkpoint", out / "step-00000010")
    assert sorted(p.name for p in out.iterdir()) == before
    assert records(tmp_path / "run-2")[-1] == last
    run("--resume_from_checkpoint", out)  # it is at its end
    assert "held-out" in (said := capsys.readouterr().out) and "note: --" not in said
    run("--resume_from_checkpoint", out, "--data", numbers, *OPTIONS, "--lr", 0.5, "--keep", 3)
    said = capsys.readouterr().out
    assert said.count("note: --") == 1
    assert "note: --lr 0.5 is for new runs; this one goes on with lr 0.003" in said
    for wrong in (tmp_path / "none", tmp_path):
        run("--resume_from_checkpoint", wrong, code=1)
    numbers.write_text(numbers.read_text().replace("red", "green"))
    run("--resume_from_checkpoint", out, code=1)
    assert "not the one that the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"job": "tabular"}', '{"job": "tabular", "data": 3}']
)
def test_a_damaged_configuration(damage, numbers, tmp_path, capsys):
    out = tmp_path / "run"
    run("--data", numbers, "--epochs", 1, "--out", out)
    (out / "config.json").write_text(damage)
    run("--resume_from_checkpoint", "--out", out, code=1)
    assert "missing or damaged" in capsys.readouterr().err


def test_an_early_stop_keeps_the_best(numbers, tmp_path, capsys):
    out = tmp_path / "run"
    run("--data", numbers, "--epochs", 300, "--patience", 3, "--lr", 0.3, "--out", out)
    assert "stopped early" in capsys.readouterr().out
    held = [e["held_out_loss"] for e in records(out) if "epoch" in e]
    assert len(held) < 300 and held.index(min(held)) == len(held) - 4
    assert json.loads((out / "result.json").read_text())["held_out_loss"] == min(held)


def test_cleanup_counts(numbers, monkeypatch):
    calls = []
    monkeypatch.setattr(pf.memory, "aggressive_memory_cleanup", lambda *_: calls.append(1))
    table = Table(str(numbers))
    trained = tabular.Tabular(dict(job(table).config), table, cleanup_every=4)
    for _ in range(20):
        trained.train_step()
        trained.after_step(Records())
    assert len(calls) == 5


def test_plot_and_events(numbers, tmp_path, capsys):
    out = tmp_path / "run"
    run("--data", numbers, "--epochs", 2, "--plot", "--tensorboard", "--out", out)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert "pip install matplotlib" in capsys.readouterr().out
    else:
        assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    (file,) = (out / "events").iterdir()
    assert [(s, t) for s, t, _ in scalars(file)] == [
        (e["step"], tag) for e in records(out) for tag in e if tag != "step"
    ]
    assert [v for _, _, v in scalars(file)] == [
        pytest.approx(e[tag], rel=1e-6) for e in records(out) for tag in e if tag != "step"
    ]


def scalars(path):
    """(step, tag, value) of an event file, by a reader of its own."""
    from pyflame.utils.event_files import crc32c

    def fields(data):
        at = 0

        def varint():
            nonlocal at
            n = shift = 0
            while True:
                byte = data[at]
                at += 1
                n |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return n

        while at < len(data):
            key = varint()
            field, kind = key >> 3, key & 7
            if kind == 0:
                yield field, varint()
            elif kind == 1:
                yield field, struct.unpack("<d", data[at : at + 8])[0]
                at += 8
            elif kind == 5:
                yield field, struct.unpack("<f", data[at : at + 4])[0]
                at += 4
            else:
                size = varint()
                yield field, data[at : at + size]
                at += size

    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    data, at = path.read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        body = data[at + 12 : at + 12 + size]
        for part, end in ((data[at : at + 8], at + 8), (body, at + 12 + size)):
            crc = crc32c(part)
            masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack("<I", data[end : end + 4])[0] == masked
        at += size + 16
        event = dict(fields(body))
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            yield event.get(2, 0), value[1].decode(), value[2]
        else:
            assert event.get(3) == b"brain.Event:2" or 7 in event


def test_events_of_a_run_that_goes_on_say_what_does_not_count(tmp_path):
    from pyflame.utils.event_files import EventFile

    file = EventFile(tmp_path, purge_from=8)
    file.scalar("x", 1e300, 8)  # more than a float32 has
    file.close()
    assert list(scalars(Path(file.path))) == [(8, "x", float("inf"))]


@pytest.mark.parametrize(
    "text, says",
    [
        ("a,y\n1,2\n", "has 1 row"),
        ("a,y\n", "has 0 rows"),
        ("y\n1\n2\n", "has one column"),
        ("a,y\n1,5\n2,5\n3,5\n", "has the one value 5.0 of 'y'"),
        ("a,y\n1,inf\n2,5\n3,5\n", "infinite 'y'"),
        ("a,y\ninf,1\n2,5\n3,2\n", "infinite value in column 'a'"),
        ("a,y\nx,1\ny,5\nz,2\n", "no column that can be learned from"),
        ("a,y\n1,2,3\n", "line 2: 3 cells"),
        ("a,a\n1,2\n", "more than one column 'a'"),
        ("", "is empty"),
    ],
)
def test_tables_that_are_none(text, says, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(text)
    run("--data", path, "--out", tmp_path / "run", code=1)
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_text_as_a_target(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a;kind\n" + "".join(f"{i % 2};{'ab'[i % 2]}\n" for i in range(60)))
    run("--data", path, "--delimiter", ";", "--epochs", 10, "--out", tmp_path / "run")
    assert "'kind' (2 classes)" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["accuracy"] == 1
    run("--data", path, "--delimiter", ";", "--task", "regression", code=1)
    run("--data", path, "--target", "none", code=1)
    assert "no column 'none'" in capsys.readouterr().err


def test_rows_in_order_are_held_out_at_the_end(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,y\n" + "".join(f"{i},{i * 0.5}\n" for i in range(50)))
    table = Table(str(path), split="order", held_out=0.2)
    assert len(table.train[0]) == 40
    assert table.held_out[0].min() > table.train[0].max()
    again = Table(str(path), split="order", held_out=0.2)
    assert again.fingerprint == table.fingerprint
    assert Table(str(path), split="order", held_out=0.3).fingerprint != table.fingerprint


def test_the_batch_size_that_fits():
    asked = []

    def step(n):
        asked.append(n)
        kept = [pf.ones(n, 1 << 16) for _ in range(4)]  # 1 MiB a sample
        kept[0].sum().item()

    pf.memory.empty_cache()
    limit = pf.memory.memory_reserved() + (100 << 20)
    pf.memory.set_memory_limit(limit)
    try:
        room = (limit - pf.memory.memory_allocated()) * 0.8 / 2**20
        n = find_batch_size(step, low=2, high=None, share=0.8)
        assert 0.8 * room <= n <= room + 1, (n, room)
        step(n)
        assert find_batch_size(step, low=2, high=16) == 16
        with pytest.raises(pf.OutOfMemoryError):
            find_batch_size(step, low=400, high=None)
    finally:
        pf.memory.set_memory_limit(0)
    for wrong in (dict(low=0), dict(low=9, high=8), dict(share=0), dict(share=1.1)):
        with pytest.raises(pf.ValueError, match="find_batch_size"):
            find_batch_size(step, **wrong)


def test_a_measured_batch_size(numbers, tmp_path, capsys):
    run("--data", numbers, "--batch_size", "auto", "--epochs", 1, "--out", tmp_path / "run")
    assert "batch size: 64" in capsys.readouterr().out
