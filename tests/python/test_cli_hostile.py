"""Arguments, files and folders that no command should end badly on: one line, and status 1 or 2."""

import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hangs import HANG

import pyflame as pf
from pyflame import cli
from pyflame.training import config as configs
from pyflame.training import runs
from pyflame.training import text as texts
from pyflame.training.records import JsonLines

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = "--layers 1 --width 16 --heads 2 --context 16 --batch 4 --sample 20 --threads 1".split()
ENV = dict(
    os.environ,
    PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.dirname(pf.__file__)), *sys.path]),
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"line {i}: the square of {i} is {i * i}\n" for i in range(800)))
    return path


def refused(capsys, *args):
    """The line that the command ends with."""
    status = cli.main([str(a) for a in args])
    out, err = capsys.readouterr()
    assert status in (1, 2), (args, status, out, err)
    assert err.endswith("\n") and err.count("\n") == 1, (args, err)
    assert err.startswith("pyflame") and ": error: " in err and len(err) < 3000
    for word in ("Traceback", "unexpected", "std::", "bad_cast"):
        assert word not in err, (args, err)
    return err


def test_programs_that_never_end():
    for command, code in (
        (["run", "/dev/zero"], 2),
        (["run", "/dev/full"], 2),
        (["check", "/dev/zero"], 1),
    ):
        # In a process of its own: to run a program makes `torch` ours.
        done = subprocess.run(
            [sys.executable, "-m", "pyflame", *command],
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert "more than 64 MiB" in done.stdout + done.stderr
        assert done.returncode == code


# ---- arguments ----------------------------------------------------------------------------------

VALUES = [
    "", " ", "nan", "inf", "-inf", "-1", "-0.5", "1e999", "9" * 25, "9" * 5000, "1.5.2", "0x10",
    "None", "a\nb", "\x1b[2J", "\udcff", "--", "é" * 100,
]  # fmt: skip
NUMBERS = {
    "train gpt --data absent": [
        "minutes", "steps", "layers", "width", "heads", "context", "batch", "dropout", "lr",
        "weight-decay", "clip", "seed", "eval-bytes", "sample", "checkpoint-interval", "keep",
        "log-interval", "threads",
    ],
    "generate": ["bytes", "temperature", "top-k", "seed", "threads"],
}  # fmt: skip


@pytest.mark.parametrize("command", NUMBERS)
def test_numbers_that_are_none(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for option in NUMBERS[command]:
        for value in VALUES:
            err = refused(capsys, *command.split(), f"--{option}={value}")
            assert f"--{option}" in err
        refused(capsys, *command.split(), f"--{option}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--minutes", "inf"], ["--minutes=-1"], ["--minutes", "0"], ["--steps", "9" * 20],
        ["--threads", str(2**63)], ["--threads", "100000"], ["--dropout", "1.01"], ["--lr", "0"],
        ["--clip", "0"], ["--layers", "10001"], ["--seed", str(2**63)],
    ],
)  # fmt: skip
def test_a_number_out_of_range_names_the_bound(args, capsys):
    err = refused(capsys, "train", "gpt", *args)
    assert any(word in err for word in ("above", "below", "finite")), err


def names(tmp_path):
    """Paths that no run, text or pack can be read from or written to."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("x")
    (tmp_path / "hollow").mkdir()
    return [
        "", "/dev/null/x", "/dev/zero", "/dev/full", "x" * 300, "a\nb/c", "\udcff\udcfe/c", "a\0b",
        "absent", tmp_path / "fifo", tmp_path / "hollow", tmp_path / "file" / "x", "/" + "y/" * 3000,
    ]  # fmt: skip


def test_paths_that_lead_nowhere(capsys, tmp_path, monkeypatch, text):
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    bad = names(tmp_path)
    for path in bad:
        refused(capsys, "train", "gpt", "--steps", "1", "--data", path)
        refused(capsys, "train", "gpt", "--resume", "--out", path)
        refused(capsys, "generate", "--run", path)
        refused(capsys, "cache", "warm", "--arch", "gfx942", "--script", path)
    for path in ("", "/dev/null/x", "x" * 300, "a\0b", tmp_path / "file", tmp_path / "file" / "x"):
        refused(capsys, "train", "gpt", "--data", text, "--steps", "1", *SMALL, "--out", path)
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"], ["train"], ["train", "cnn"], ["train", "gpt", "more"], ["--nonsense"],
        ["train", "gpt", "--nonsense"], ["train", "gpt", "--data=--"], ["train", "gpt", "--precision", "int3"], ["cache"],
        ["generate", "--device", "nonsense"], ["generate", "--device", "cuda:" + "9" * 30],
        ["generate", "--device", ""], ["generate", "--device", "a\nb"],
        ["generate", "--device", "\udcff"], ["cache", "warm", "--arch", "nonsense"],
        ["cache", "warm", "--arch", ""], ["cache", "warm", "--arch", "gfx\0"],
        ["cache", "pack"], ["cache", "pack", "--arch"], ["cache", "pack", "--arch", "x"],
        ["cache", "pack", "--arch", "gfx942", "--out", "/dev/null/x"],
        ["cache", "pack", "--arch", "gfx942", "--out", "a\0/b"],
        ["cache", "clear", "--target"], ["cache", "show", "x"], ["info", "x"], ["tune", "x"],
        ["a\nb"], ["\udcff"], ["--=1"], ["-"], ["--"],
    ],
)  # fmt: skip
def test_command_lines_that_mean_nothing(args, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if args == ["--"]:
        assert cli.main(args) == 2  # no command: the help
    else:
        refused(capsys, *args)
    assert os.listdir(tmp_path) == []


def test_models_that_cannot_fit_are_refused_at_once(capsys, tmp_path, text):
    for sizes in (
        ["--layers", "10000", "--width", "131072", "--heads", "1024"],
        ["--batch", "1048576", "--context", "4096", "--width", "1024"],
    ):
        err = refused(capsys, "train", "gpt", "--data", text, *sizes, "--out", tmp_path / "run")
        assert "--context" in err
    assert not (tmp_path / "run").exists()


def test_what_nobody_expected_is_one_line_too(capsys, monkeypatch):
    monkeypatch.setattr(cli, "_info", lambda: {}["\n"])
    assert cli.main(["info"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "unexpected KeyError" in err and "PYFLAME_TRACEBACK" in err
    monkeypatch.setenv("PYFLAME_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli.main(["info"])


# ---- texts --------------------------------------------------------------------------------------


def test_a_folder_with_strange_files_is_read(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(40):
        (folder / f"{i}.txt").write_text(f"text number {i}\n" * 30)
    plain = texts.from_path(folder)
    (folder / "caf\udce9.txt").write_text("a name in Latin-1\n" * 30)
    (folder / "latin.txt").write_bytes("é".encode("latin-1") * 100)
    (folder / "a\nb.txt").write_text("x")
    os.mkfifo(folder / "fifo")
    os.symlink("/dev/zero", folder / "zero")
    os.symlink("absent", folder / "broken")
    os.symlink("loop", folder / "loop")
    (folder / "picture").write_bytes(b"\0\1")
    more = texts.from_path(folder)
    total = more.train_bytes + more.held_out_bytes
    assert total == plain.train_bytes + plain.held_out_bytes + 30 * 18 + 100 + 1
    assert any("left out 1 files that hold no text, such as picture" in n for n in more.notes)
    assert any("not UTF-8" in n for n in more.notes)


def test_files_that_cannot_be_read_are_left_out_and_counted(tmp_path, monkeypatch):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(30):
        (folder / f"{i}.txt").write_text(f"text number {i}\n" * 30)
    real = texts._read

    def read(path):
        if path.endswith(("/3.txt", "/7.txt")):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(texts, "_read", read)
    found = texts.from_path(folder)
    assert any(n.startswith("left out 2 files or folders that cannot be read") for n in found.notes)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "fifo"])
def test_a_text_is_a_regular_file(path, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(pf.FileError, match="not a regular file"):
        texts.from_path(tmp_path / path)


# ---- the files of a run -------------------------------------------------------------------------

CONFIG = {
    "model": {
        "vocab": 256, "layers": 1, "width": 16, "heads": 2, "context": 16, "hidden": 64,
        "dropout": 0.0, "tied": True,
    },
    "format": 1, "precision": "float32", "batch": 4, "lr": 4e-3, "weight_decay": 0.1, "clip": 1.0,
    "seed": 1, "eval_bytes": 100, "data": None, "fingerprint": "00", "log_interval": 10,
    "warmup": 1, "steps": 20,
}  # fmt: skip
ODD = [None, True, -1, 0, 1.5, 10**30, float("nan"), float("inf"), "", "4", [], {}, [4], {"a": 1}]


def test_every_field_of_a_config_is_checked(tmp_path):
    path = tmp_path / "config.json"

    def read(config):
        path.write_text(json.dumps(config))
        return configs.read_config(tmp_path)

    assert read(CONFIG) == CONFIG
    for fields, place in ((configs.FIELDS, CONFIG), (configs.MODEL, CONFIG["model"])):
        for name in fields:
            for value in [KeyError, *ODD]:
                changed = json.loads(json.dumps(CONFIG))
                target = changed if place is CONFIG else changed["model"]
                if value is KeyError:
                    del target[name]
                else:
                    target[name] = value
                try:
                    read(changed)
                except pf.FileError as e:
                    assert "config.json' is missing or damaged (" in str(e)
                else:
                    assert fields[name](value)
    for damaged in ([], 5, {**CONFIG, "model": None}, {**CONFIG, "model": {"x": 1}}):
        with pytest.raises(pf.FileError):
            read(damaged)
    more = {**CONFIG, "model": {**CONFIG["model"], "more": 1}}
    with pytest.raises(pf.FileError, match="unknown field 'more'"):
        read(more)


def mutate(data, rng):
    words = [b"1e999", b"-1", b"null", b"[" * 3000, b"9" * 5000, b"\xff", b"\0", b"\n", b'"', b"{}"]
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at : at + rng.randrange(5)] = rng.choice(words)
        elif how == 2:
            del data[at : at + rng.randrange(20)]
        else:
            data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randrange(30)]
    return bytes(data)


def test_damaged_configs_are_files_errors(tmp_path):
    rng = random.Random(4)
    good = json.dumps(CONFIG, indent=1).encode()
    for _ in range(600):
        (tmp_path / "config.json").write_bytes(mutate(good, rng))
        try:
            config = configs.read_config(tmp_path)
            configs.check_memory(config)
        except (pf.FileError, pf.ValueError):
            pass
    for what in (os.mkfifo, os.mkdir):
        os.unlink(tmp_path / "config.json")
        what(tmp_path / "config.json")
        with pytest.raises(pf.FileError, match="regular file|a directory"):
            configs.read_config(tmp_path)
        break


def test_a_damaged_log_never_keeps_a_run_from_going_on(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    good = b"".join(b'{"step": %d, "bits_per_byte": 1.5}\n' % i for i in range(1, 30))
    rng = random.Random(6)
    for _ in range(200):
        path.write_bytes(mutate(good, rng))
        JsonLines(path).cut(20)
        for line in path.read_bytes().splitlines():
            assert json.loads(line)["step"] <= 20
    capsys.readouterr()
    path.write_bytes(good.replace(b'"step": 5,', b'"step\xff": 5,') + b'{"step": 19')
    JsonLines(path).cut(20)
    assert [json.loads(n)["step"] for n in path.read_text().splitlines()] == [
        i for i in range(1, 21) if i != 5
    ]
    assert "left out 2 damaged lines" in capsys.readouterr().out
    path.unlink()
    JsonLines(path).cut(20)
    os.mkfifo(path)  # neither reading nor writing waits
    JsonLines(path).cut(20)
    log = JsonLines(path)
    log.add({"step": 1})
    log.flush()
    assert capsys.readouterr().out.count("cannot") == 2


def test_one_bad_byte_in_the_log_does_not_block_resume(tmp_path, text, capsys):
    out = str(tmp_path / "run")
    args = ["train", "gpt", "--data", str(text), *SMALL, "--steps", "30", "--out", out]
    assert cli.main([*args, "--log-interval", "1"]) == 0
    log = tmp_path / "run" / "log.jsonl"
    data = bytearray(log.read_bytes())
    data[100] = 0xFF
    log.write_bytes(data)
    assert cli.main(["train", "gpt", "--resume", "--out", out, "--sample", "5"]) == 0
    assert "left out 1 damaged line" in capsys.readouterr().out
    assert len(log.read_text().splitlines()) == 29


# ---- one process for one run --------------------------------------------------------------------

HOLD = """
import sys
from pyflame.training import runs
with runs.claimed(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder):
    p = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], env=ENV, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert p.stdout.readline() == "held\n"
    return p


def test_a_run_in_use_names_its_process(tmp_path, text, capsys):
    run = tmp_path / "run"
    args = ["train", "gpt", "--data", text, *SMALL, "--steps", "2", "--out"]
    assert cli.main([str(a) for a in [*args, run]]) == 0
    capsys.readouterr()
    p = holder(run)
    err = refused(capsys, "train", "gpt", "--resume", "--out", run)
    assert f"in use by process {p.pid} on " in err and "--out" in err
    p.kill()  # the lock dies with its process
    p.communicate()
    assert cli.main(["train", "gpt", "--resume", "--out", str(run), "--sample", "5"]) == 0
    # A run that is just beginning, without a configuration yet: the next name is taken.
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    p = holder(fresh)
    assert cli.main([str(a) for a in [*args, fresh]]) == 0
    p.communicate("")
    assert not (fresh / "config.json").exists()
    assert (tmp_path / "fresh-2" / "result.json").exists()


def test_trainings_that_begin_together_do_not_share_a_folder(tmp_path, text):
    args = ["train", "gpt", "--data", text, *SMALL, "--steps", "4", "--out", tmp_path / "run"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "pyflame", *map(str, args)], env=ENV, stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]  # fmt: skip
    for p in started:
        _, err = p.communicate(timeout=HANG)
        assert p.returncode == 0, err
    for name in ("run", "run-2", "run-3"):
        assert sorted(os.listdir(tmp_path / name)) == [
            ".lock", "config.json", "log.jsonl", "result.json", "step-00000004",
        ]  # fmt: skip


def test_the_lock_is_a_file(tmp_path):
    for make in (os.mkfifo, os.mkdir, lambda p: os.symlink("/etc/passwd", p)):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder / ".lock")
        with pytest.raises(OSError), runs.claimed(folder):
            pass


# ---- where other processes look for modules -----------------------------------------------------


def test_no_process_imports_from_the_current_directory(tmp_path):
    """A folder full of traps with the names of modules, and commands that start other Pythons."""
    trap = (
        "import os\nopen(os.path.join(os.path.dirname(__file__), 'SPRUNG'), 'a').write(__name__)\n"
    )
    for name in (
        "tempfile",
        "runpy",
        "struct",
        "numpy",
        "pyflame",
        "json",
        "random",
        "sitecustomize",
    ):
        (tmp_path / f"{name}.py").write_text(trap)
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "mine.py").write_text("import beside; print('ran', 0, 0)")
    (tmp_path / "script" / "beside.py").write_text("")
    code = (
        "import sys; from pyflame import kernel_cache, cli; kernel_cache.here()\n"
        "cli.main(['cache', 'warm', '--arch', 'gfx942', '--script', 'script/mine.py'])\n"
        "cli.main(['cache', 'pack', '--arch', 'gfx942', '--out', 'x.pack', '--script', 'script/mine.py'])"
    )
    env = {k: v for k, v in ENV.items() if k != "PYTHONPATH"}
    # Empty entries of PYTHONPATH mean the current directory, too.
    paths = [os.path.dirname(os.path.dirname(pf.__file__)), *filter(None, sys.path)]
    env["PYTHONPATH"] = os.pathsep.join(paths) + os.pathsep * 2
    env |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYFLAME_HIPRTC_LIBRARY": "absent"}
    clean = "import os, sys; sys.path = [p for p in sys.path if p and p != os.getcwd()]\n" + code
    run = subprocess.run(
        [sys.executable, "-S", "-P", "-c", clean], cwd=tmp_path, env=env, capture_output=True,
        text=True, timeout=HANG,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not (tmp_path / "SPRUNG").exists(), (tmp_path / "SPRUNG").read_text()
    assert "beside" not in run.stderr  # a program's own folder is looked into


def test_every_python_that_we_start_is_told_so():
    """Lists such as [sys.executable, "-m", ...] of the package and the tools have -P (or -I)."""
    found = 0
    files = [*(ROOT / "python" / "pyflame").rglob("*.py"), *(ROOT / "tools").glob("*.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            words = [ast.unparse(e).strip("'\"") for e in getattr(node, "elts", [])]
            if words[:1] == ["sys.executable"]:
                found += 1
                # A script by its path brings its own folder, not the current one.
                by_path = len(words) > 1 and words[1].startswith("ROOT")
                assert by_path or words[1:2] in (["-P"], ["-I"]), f"{file}: {words}"
    assert found >= 5
    for file in [*(ROOT / "cmake").glob("*.cmake"), *ROOT.glob("*/CMakeLists.txt")]:
        assert "Python_EXECUTABLE} -m" not in file.read_text().replace("-m pip install", "")
