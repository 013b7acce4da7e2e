"""Where a training's words go: full disks, closed streams, narrow terminals, ASCII. It goes on."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from hangs import HANG

import pyflame as pf
from pyflame.training import output
from pyflame.training.progress import Progress

SMALL = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --sample 30 --threads 1".split()
ENV = dict(
    os.environ,
    PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.dirname(pf.__file__)), *sys.path]),
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"zeile {i}: ü é {i * i}\n" for i in range(800)))
    return path


def start(*args, env=None, **options):
    command = [sys.executable, "-m", "pyflame", *map(os.fspath, args)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, env=ENV | (env or {}), **options)


def train(text, out, **options):
    p = start("train", "gpt", "--data", text, "--steps", "20", *SMALL, "--out", out, **options)
    told, err = p.communicate(timeout=HANG)
    return p.returncode, (told or b"").decode(), (err or b"").decode()


def finished(run):
    """The run's result; log and checkpoint are there."""
    assert (run / "step-00000020").is_dir()
    log = [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert log == [10, 20]
    return json.loads((run / "result.json").read_text())


def close(*numbers):
    def before():
        for n in numbers:
            os.close(n)

    return before


@pytest.mark.parametrize("how", ["full", "closed", "broken"])
def test_a_lost_stdout_ends_no_training_and_is_told(text, tmp_path, how):
    run = tmp_path / "run"
    options = {}
    if how == "full":
        options["stdout"] = open("/dev/full", "wb")
    elif how == "closed":
        options["preexec_fn"] = close(1)
    else:
        reader, options["stdout"] = os.pipe()
        os.close(reader)
    status, _, err = train(text, run, **options)
    assert status == 1, err  # the result could not be told
    assert "some output could not be written: stdout (" in err and "Traceback" not in err
    assert "Exception ignored" not in err
    assert "stdout" in finished(run)["output_lost"]


@pytest.mark.parametrize("how", ["full", "closed"])
def test_a_lost_stderr_ends_no_training(text, tmp_path, how):
    run = tmp_path / "run"
    options = {"stderr": open("/dev/full", "wb")}
    if how == "closed":
        options = {"preexec_fn": close(2)}
    status, told, _ = train(text, run, **options)
    assert status == 0
    assert "held-out: " in told.splitlines()[-1]
    assert "note: some output could not be written: stderr (" in told
    assert "stderr" in finished(run)["output_lost"]


def test_without_any_stream(text, tmp_path):
    status, *_ = train(text, tmp_path / "run", preexec_fn=close(0, 1, 2))
    assert status == 1
    assert set(finished(tmp_path / "run")["output_lost"]) == {"stdout", "stderr"}


@pytest.mark.parametrize("args", [["info"], ["--version"], ["--help"], ["cache", "show"]])
def test_a_full_disk_under_a_short_command(args):
    with open("/dev/full", "wb") as full:
        p = start(*args, stdout=full)
        _, err = p.communicate(timeout=HANG)
    assert p.returncode == 1
    assert err.count(b"\n") == 1 and b"No space left" in err and b"Traceback" not in err


@pytest.mark.parametrize(
    "env",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_ascii_terminals_and_names_that_are_no_text(text, tmp_path, env):
    """The whole command with a folder and a text whose names are not UTF-8."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    os.rename(text, folder + b"/t\xff.txt")
    run = os.fsdecode(folder + b"/run")
    status, told, err = train(os.fsdecode(folder + b"/t\xff.txt"), run, env=env)
    assert status == 0, err
    told.encode("ascii")
    assert "sample:" in told and "held-out: " in told
    for args in (
        ["train", "gpt", "--resume", "--out", run],
        ["generate", "--run", run, "--bytes", "9"],
    ):
        p = start(*args, env=env)
        told, err = p.communicate(timeout=HANG)
        assert p.returncode == 0, err
    p = start("train", "gpt", "--resume", "--out", run + "-absent", env=env)
    _, err = p.communicate(timeout=HANG)
    assert p.returncode == 1 and err.startswith(b"pyflame: error: pf.train: there is no run")
    p = start("generate", "--run", run + "-absent", env=env)
    _, err = p.communicate(timeout=HANG)
    assert p.returncode == 1 and err.startswith(b"pyflame: error: pf.generate: there is no run")
    assert err.endswith(b"or name another with --run or --model\n")


def test_what_is_lost_is_said_once(monkeypatch, capsys):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    output.begin()
    monkeypatch.setattr(sys, "stderr", Full())
    bar = Progress("gpt", 10, 0, 1)
    for step in range(3):
        bar.show(step, 1.0)
    bar.close()
    assert output.note() == "some output could not be written: stderr (No space left on device)"
    assert output.say("still") and capsys.readouterr().out == "still\n"
    monkeypatch.undo()
    output.begin()
    assert output.note() is None


# ---- terminals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_bar_fits_any_terminal_and_follows_its_size(encoding):
    leader, follower = pty.openpty()
    stream = open(follower, "w", encoding=encoding, newline="")
    bar = Progress("train gpt", 123456, 0, 2048, stream)
    assert bar.live
    bar.began -= 4000
    bar.recent = [(bar.began, 0)]
    for columns in (20, 99, 5, 1, 200, 40, 60, 80, 12, 300):
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        bar.show(98765, 1.234)
        line = os.read(leader, 4096).decode(encoding)
        assert line.startswith("\r") and "\n" not in line
        assert len(line) - 1 <= max(columns - 1, 1), (columns, line)
        if columns >= 20:
            assert "98765/123456" in line
        if columns >= 99:
            assert "tokens/s" in line and "loss 1.234" in line
    stream.close()
    os.close(leader)
