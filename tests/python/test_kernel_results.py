"""What the compile check of kernels keeps: a run goes on where the last one ended (tools/kernel_results.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import kernel_results  # noqa: E402  (its folder is on the path from here on)
from kernel_results import Finding, Results  # noqa: E402

import kernels  # noqa: E402

sys.path.remove(str(ROOT / "tools"))


def program(text="void f();\n", options=("-DPF_T=float",), kernel="sum_columns", arch="gfx942"):
    return kernels.Program(
        "/none", arch, (kernel,), options, kernel_results.compiled_hash(text), None
    )


def test_results_outlive_the_run(tmp_path):
    results = Results("gfx942", "clang 19", tmp_path)
    spilled = Finding("sum_columns", "spill", 80)
    results.keep(program(), 1, [spilled])
    again = Results("gfx942", "clang 19", tmp_path)
    assert again.get(program()).findings == [spilled]
    # Where lines came from is not compiled; whatever else differs makes another program.
    assert again.get(program('#line 1 "sum.h"\nvoid f();\n'))
    assert again.get(program("void g();\n")) is None
    assert again.get(program(options=("-DPF_T=double",))) is None
    assert again.get(program(arch="gfx90a")) is None
    assert Results("gfx942", "clang 20", tmp_path).get(program()) is None


def test_a_cut_line_spoils_no_other(tmp_path):
    results = Results("gfx942", "", tmp_path)
    results.keep(program(), 1, [])
    results.path.write_text(results.path.read_text()[:-9])  # as when the machine stops
    Results("gfx942", "", tmp_path).keep(program("void g();\n"), 2, [])
    again = Results("gfx942", "", tmp_path)
    assert again.get(program()) is None and again.get(program("void g();\n")).kernels == 2


def test_the_basis_follows_what_is_looked_for(monkeypatch):
    before = kernels.basis("gfx942", "clang 19")
    assert before == kernels.basis("gfx942", "clang 19") != kernels.basis("gfx942", "clang 20")
    assert before != kernels.basis("gfx1100", "clang 19")
    monkeypatch.setattr(kernels, "MAX_SCALARS", 1)
    assert before != kernels.basis("gfx942", "clang 19")


def test_summary_says_what_changed(tmp_path, monkeypatch):
    results = Results("gfx942", "", tmp_path)
    mine = [program(), program("void g();\n"), program("void h();\n", kernel="softmax_rows")]
    summary = {"failures": [], "texts": {}}
    assert kernel_results.changed(mine, "gfx942", summary) == mine

    def summarize():
        kernel_results.summarize(summary, "gfx942", "clang 19", mine, results, "1" * 40)

    results.keep(mine[0], 1, [])
    results.keep(mine[2], 1, [])
    summarize()
    cell = summary["texts"]["sum.h"]["gfx942"]
    assert (cell["done"], cell["of"]) == (1, 2)
    assert kernel_results.changed(mine, "gfx942", summary) == mine[:2]
    results.keep(mine[1], 1, [])
    summarize()
    assert kernel_results.changed(mine, "gfx942", summary) == []
    # A launcher that asks for one more, and a text that is another one.
    more = [*mine, program(options=("-DPF_T=pf_f16",))]
    assert kernel_results.changed(more, "gfx942", summary) == [mine[0], mine[1], more[3]]
    other = [mine[0], mine[1], program("void i();\n", kernel="softmax_rows")]
    assert kernel_results.changed(other, "gfx942", summary) == [other[2]]

    # A machine that has none of the results takes nothing away, nor does one with a part of them.
    before = json.dumps(summary)
    for some in ([], mine[:1]):
        less = Results(f"less{len(some)}", "", tmp_path)
        for p in some:
            less.keep(p, 1, [])
        kernel_results.summarize(summary, "gfx942", "clang 19", mine, less, "2" * 40)
        assert json.dumps(summary) == before

    file = tmp_path / "kernel_texts.json"
    kernel_results.write(summary, file)
    assert kernel_results.read(file)["texts"] == json.loads(json.dumps(summary["texts"]))
    assert "| gfx942 | clang 19 | 2 | 0 |" in kernel_results.state(["gfx942"], summary)
    monkeypatch.setattr(kernel_results, "text_hash", lambda name: "another")
    assert "| gfx942 | – | 0 | 0 |" in kernel_results.state(["gfx942"], summary)


def test_a_text_changes_with_what_it_includes(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_results, "texts", lambda: sorted(tmp_path.glob("*.h")))

    def hashed(name="a.h", **files):
        for file, text in files.items():
            (tmp_path / f"{file}.h").write_text(text)
        return kernel_results.text_hash.__wrapped__(name)

    first = hashed(a='#include "kernels/b.h"\nint x;', b='#include "a.h"\nint y;', c="int z;")
    assert hashed(c="int w;") == first
    assert hashed(b='#include "a.h"\n\nint  y;  // a number') == first
    assert hashed(b='#include "a.h"\nint v;') != first
    assert hashed("c.h") != first


def test_every_kind_comes_early():
    programs = [
        program(f"void f{i}();\n", kernel=k)
        for i in range(9)
        for k in ("a", "b")
        if k == "a" or i < 2
    ]
    order = [p.kernels[0] for p in kernels.spread(programs, 1)]
    assert len(order) == len(programs)
    assert set(order[:2]) == {"a", "b"} and order[4:] == ["a"] * 7


def test_interrupts_do_not_reach_compilers():
    code = "import os, sys; sys.path.insert(0, 'tools'); import kernels; kernels.in_worker(); "
    code += "print(os.getpgrp() == os.getpid())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


class Pool:
    """Runs what it is given at once."""

    def submit(self, work, p):
        from concurrent.futures import Future

        future = Future()
        future.set_result(work(p))
        return future


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = []

    def compile_amd(p):
        compiled.append(p)
        killed = [Finding("?", f"{kernels.KILLED} -9")] if p.define("PF_T") == "killed" else []
        return 1, killed

    monkeypatch.setattr(kernels, "compile_amd", compile_amd)
    monkeypatch.setattr(kernels, "basis", lambda arch, compiler: compiler)

    def begin(minutes=None, jobs=1):
        class Args:
            sample = only = None
            arch = ("gfx942",)

        Args.minutes, Args.jobs = minutes, jobs
        compiled.clear()
        return kernels.Run(Args, {"gfx942": "clang 19"}), compiled

    return begin


def test_a_second_run_compiles_nothing(run):
    programs = [program(f"void f{i}();\n") for i in range(5)]
    first, compiled = run()
    first.compile(Pool(), programs)
    assert (len(compiled), first.kernels["gfx942"], first.left) == (5, 5, 0)
    second, compiled = run()
    second.compile(Pool(), programs)
    assert (len(compiled), second.kernels["gfx942"], second.known) == (0, 5, 5)


def test_no_result_of_a_killed_compiler_is_kept(run):
    killed = program(options=("-DPF_T=killed",))
    for _ in range(2):
        one, compiled = run()
        one.compile(Pool(), [killed])
        assert compiled == [killed] and len(one.failures) == 1


def test_interrupted_runs_keep_what_they_have(run, monkeypatch):
    programs = [program(f"void f{i}();\n") for i in range(5)]
    first, compiled = run()
    real = first.ended

    def interrupted(running, until):
        if len(compiled) == 4 and until == "FIRST_COMPLETED":
            raise KeyboardInterrupt
        return real(running, until)

    monkeypatch.setattr(first, "ended", interrupted)
    first.compile(Pool(), programs)
    assert first.stopped and first.interrupted and first.compiled == 4 and first.left == 1
    second, compiled = run()
    second.compile(Pool(), programs)
    assert len(compiled) == 1 and second.left == 0 and not second.stopped


def test_no_time_left(run):
    over, compiled = run(minutes=1e-9)
    over.compile(Pool(), [program()])
    assert not compiled and over.left == 1 and over.stopped and not over.interrupted
