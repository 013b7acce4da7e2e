"""The command `pyflame`: help, training, interruption, resuming, bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from hangs import HANG

import pyflame as pf

PYFLAME = [sys.executable, "-m", "pyflame"]
# Defaults differ with the device.
SMALL = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --sample 20 --threads 1 --lr 0.004".split()
ENV = dict(
    os.environ,
    PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.dirname(pf.__file__)), *sys.path]),
)


def pyflame(*args, cwd, code=0, timeout=HANG):
    done = subprocess.run(
        [*PYFLAME, *map(str, args)], cwd=cwd, env=ENV, capture_output=True, text=True,
        timeout=timeout,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"line {i}: the square of {i} is {i * i}\n" for i in range(2000)))
    return path


def train(text, *args, cwd, code=0):
    return pyflame("train", "gpt", "--data", text, *SMALL, *args, cwd=cwd, code=code)


def losses(run):
    with open(run / "log.jsonl") as f:
        return [json.loads(line) for line in f]


def test_help_and_version(tmp_path):
    assert "train" in pyflame("--help", cwd=tmp_path).stdout
    assert "--resume" in pyflame("train", "gpt", "--help", cwd=tmp_path).stdout
    assert "--temperature" in pyflame("generate", "--help", cwd=tmp_path).stdout
    assert pyflame("--version", cwd=tmp_path).stdout.strip() == f"pyflame {pf.__version__}"
    assert "backend cpu" in pyflame("info", cwd=tmp_path).stdout
    pyflame(cwd=tmp_path, code=2)
    pyflame("train", "cnn", cwd=tmp_path, code=2)
    pyflame("train", "gpt", "--steps", "0", cwd=tmp_path, code=2)


def test_help_imports_little():
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom pyflame.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'pyflame.nn', 'pyflame.optim', 'json', 'inspect', 'typing'}\n"
        "got = heavy & (set(sys.modules) - before)\nassert not got, got"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_training_learns_and_reports(text, tmp_path):
    done = train(text, "--steps", 150, "--out", "run", cwd=tmp_path)
    last = done.stdout.rstrip().splitlines()[-1]
    assert re.fullmatch(r"held-out: \d+\.\d{3} bits per byte", last)
    assert float(last.split()[1]) < 4.5
    assert "sample:" in done.stdout and "loss" in done.stderr
    log = losses(tmp_path / "run")
    assert [e["step"] for e in log] == list(range(10, 151, 10))
    assert log[-1]["bits_per_byte"] < log[0]["bits_per_byte"]
    out = pyflame("generate", "--run", "run", "--bytes", 40, "--prompt", "line", cwd=tmp_path)
    assert out.stdout.startswith("line") and len(out.stdout) > 20
    again = pyflame("generate", "--run", "run", "--bytes", 40, "--prompt", "line", cwd=tmp_path)
    assert again.stdout == out.stdout
    # A second run takes another directory; nothing is lost.
    train(text, "--steps", 5, "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run-2" / "result.json").exists()


def test_calibration_fixes_the_steps(text, tmp_path):
    done = train(text, "--minutes", 0.25, "--out", "run", cwd=tmp_path)
    steps = int(re.search(r"so (\d+) steps", done.stdout)[1])
    with open(tmp_path / "run" / "config.json") as f:
        assert json.load(f)["steps"] == steps
    assert losses(tmp_path / "run")[-1]["step"] == steps


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_and_resumed_is_the_same_run(how, text, tmp_path):
    options = ["--steps", 120, "--dropout", 0.1, "--checkpoint-interval", 30, "--log-interval", 1]
    train(text, *options, "--out", "whole", cwd=tmp_path)
    args = [*PYFLAME, "train", "gpt", "--data", text, *SMALL, *options, "--out", "cut"]
    process = subprocess.Popen(
        list(map(str, args)), cwd=tmp_path, env=ENV, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + HANG
    while not list((tmp_path / "cut").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(how)
    out, _ = process.communicate(timeout=HANG)
    finished = "held-out" in out  # it may have been too quick for us
    if not finished:
        if how == signal.SIGKILL:
            assert process.returncode == -how
        else:
            assert process.returncode == 128 + how
            assert "a checkpoint is kept" in out and "--resume" in out
        pyflame("train", "gpt", "--resume", "--out", "cut", cwd=tmp_path)
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    results = [json.loads((tmp_path / r / "result.json").read_text()) for r in ("cut", "whole")]
    assert results[0] == results[1]


def test_resume_before_the_first_checkpoint(text, tmp_path):
    train(text, "--steps", 20, "--out", "whole", cwd=tmp_path)
    os.makedirs(tmp_path / "cut")
    os.link(tmp_path / "whole" / "config.json", tmp_path / "cut" / "config.json")
    done = pyflame("train", "gpt", "--resume", "--steps", 30, "--out", "cut", cwd=tmp_path)
    assert "note: --steps 30 is for new runs; this one goes on with steps 20" in done.stdout
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def test_bad_input(text, tmp_path):
    def fails(*args, words):
        err = pyflame(*args, cwd=tmp_path, code=1).stderr
        assert err.startswith("pyflame: error: pf."), err
        for w in words:
            assert w in err, err

    fails("train", "gpt", "--data", "absent.txt", words=["absent.txt", "--data"])
    (tmp_path / "empty.txt").write_bytes(b"")
    fails("train", "gpt", "--data", "empty.txt", words=["is empty"])
    (tmp_path / "short.txt").write_bytes(b"abc")
    fails("train", "gpt", "--data", "short.txt", words=["--context"])
    fails("train", "gpt", "--resume", "--out", "nowhere", words=["nowhere", "--resume"])
    fails("train", "gpt", "--data", text, "--width", 30, words=["width", "heads"])
    fails("generate", "--run", "nowhere", words=["nowhere"])
    os.makedirs(tmp_path / "hollow")
    fails("train", "gpt", "--data", "hollow", words=["is empty"])
    os.makedirs(tmp_path / "broken")
    (tmp_path / "broken" / "config.json").write_text("{")
    fails("train", "gpt", "--resume", "--out", "broken", words=["config.json", "damaged"])


def test_full_disk_does_not_stop_the_run(text, tmp_path, monkeypatch, capsys):
    from pyflame import cli
    from pyflame.checkpoint import Checkpoints

    save = Checkpoints.save

    def sometimes(self, step, state):
        if step == 20:
            raise pf.FileError("pf.save: no space left on device")
        return save(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", sometimes)
    options = ["--steps", "40", "--checkpoint-interval", "10", "--out", str(tmp_path / "run")]
    assert cli.main(["train", "gpt", "--data", str(text), *SMALL, *options]) == 0
    out = capsys.readouterr().out
    assert "no checkpoint at step 20" in out and "held-out" in out
    names = sorted(p.name for p in (tmp_path / "run").glob("step-*"))
    assert names == ["step-00000030", "step-00000040"]


def test_full_disk_at_the_end_still_tells_the_result(text, tmp_path, monkeypatch, capsys):
    from pyflame import cli
    from pyflame.checkpoint import Checkpoints

    save = Checkpoints.save

    def until(self, step, state):
        if step > 20:
            raise pf.FileError("pf.save: no space left on device")
        return save(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", until)
    options = ["--steps", "40", "--checkpoint-interval", "10", "--out", str(tmp_path / "run")]
    assert cli.main(["train", "gpt", "--data", str(text), *SMALL, *options]) == 1
    out = capsys.readouterr().out
    assert "no checkpoint at step 30, the newest is of step 20" in out
    assert "could not be kept" in out and "--resume" in out
    held_out = out.splitlines()[-1]
    assert held_out.startswith("held-out")
    monkeypatch.undo()  # room is made
    resumed = ["--resume", "--out", str(tmp_path / "run"), "--threads", "1", "--sample", "20"]
    assert cli.main(["train", "gpt", *resumed]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == held_out
    assert [e["step"] for e in losses(tmp_path / "run")] == [10, 20, 30, 40]


def test_log_on_a_full_disk_has_whole_lines_and_catches_up(tmp_path, monkeypatch, capsys):
    from pyflame import _files
    from pyflame.training import records

    class Full:  # takes five bytes and no more
        def __init__(self, *_, **__):
            self.file = open(tmp_path / "log", "ab", buffering=0)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def seek(self, *a):
            return self.file.seek(*a)

        def truncate(self, size):
            self.file.truncate(size)

        def write(self, data):
            if self.file.tell() > 12:
                raise OSError(28, "No space left on device")
            return self.file.write(data[:5])

    log = records.JsonLines(tmp_path / "log")
    log.add({"step": 1})
    log.flush()
    monkeypatch.setattr(_files, "open", Full, raising=False)
    for step in (2, 3):
        log.add({"step": step})
        log.flush()
    assert (tmp_path / "log").read_text() == '{"step": 1}\n'
    assert capsys.readouterr().out.count("No space left") == 1
    monkeypatch.undo()
    log.flush()
    log.flush()
    assert (tmp_path / "log").read_text().splitlines() == [f'{{"step": {i}}}' for i in (1, 2, 3)]


def test_changed_text_is_refused(text, tmp_path):
    train(text, "--steps", 5, "--out", "run", cwd=tmp_path)
    with open(text, "a") as f:
        f.write("more")
    done = pyflame("train", "gpt", "--resume", "--out", "run", cwd=tmp_path, code=1)
    assert "same bytes" in done.stderr


def test_any_bytes_are_text(tmp_path):
    data = bytes((i * i + i // 7) % 251 for i in range(20000))
    (tmp_path / "latin.txt").write_bytes(data)
    done = train("latin.txt", "--steps", 3, cwd=tmp_path)
    assert "not UTF-8" in done.stdout and "held-out:" in done.stdout


def test_directory_of_text(tmp_path):
    folder = tmp_path / "texts" / "deep"
    os.makedirs(folder)
    for i in range(40):
        (folder / f"{i}.txt").write_text(f"text number {i}\n" * 50)
    (tmp_path / "texts" / "picture.bin").write_bytes(b"\0\1\2")
    done = train("texts", "--steps", 3, cwd=tmp_path)
    assert "left out 1 files" in done.stdout


def test_batches_depend_on_seed_and_step_only():
    from pyflame.training.text import Batches, windows

    data = pf.arange(1000).to(pf.uint8)
    a, b = Batches(data, 4, 16, seed=3), Batches(data, 4, 16, seed=3)
    for step in (5, 0, 5):
        (x, y), (u, v) = a(step), b(step)
        assert pf.equal(x, u) and pf.equal(y, v)
        assert pf.equal(x[:, 1:], y[:, :-1])
    assert not pf.equal(a(1)[0], a(2)[0])
    assert not pf.equal(a(1)[0], Batches(data, 4, 16, seed=4)(1)[0])
    assert windows(data, 16, 10**9) == list(range(0, 992, 16))
    assert windows(data, 16, 64) == [0, 240, 496, 736] or len(windows(data, 16, 64)) == 4


def test_progress_bar(capsys):
    import io

    from pyflame.training.progress import Progress

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    out = Terminal()
    bar = Progress("gpt", 200, 0, 100, out)
    bar.began -= 10
    bar.recent = [(bar.began, 0)]
    bar.show(50, 2.5)
    bar.close()
    line = out.getvalue()
    assert line.startswith("\rgpt:  25%|█████") and line.endswith("\n")
    assert "50/200 [00:10<00:" in line and "loss 2.500 bits/byte" in line and "tokens/s" in line
    quiet = io.StringIO()
    bar = Progress("gpt", 200, 0, 100, quiet)
    assert not bar.due()
    bar.show(50, 2.5)
    assert "\r" not in quiet.getvalue() and "step 50/200 (25%)" in quiet.getvalue()
