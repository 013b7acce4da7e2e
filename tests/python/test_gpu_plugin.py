"""The ROCm plug-in driven through stand-ins for AMD's runtime and compiler (tests/standin).

What happens when it is told to fail stands in test_gpu_faults.py.
"""

import concurrent.futures
import re
import subprocess

import pytest
import standin

pytestmark = standin.MARKS
cache, run = standin.cache, standin.run  # fixtures


@pytest.mark.parametrize("arch, warp", [("gfx942:sramecc+:xnack-", "64"), ("gfx1100", "32")])
def test_computes_as_the_cpu_does(run, arch, warp):
    run(
        f"""
        info = pf.device_info("rocm")
        assert info["target"] == {arch!r} and info["warp_size"] == {warp}
        a = np.random.default_rng(0).standard_normal((37, 50)).astype("float32")
        x, y = pf.tensor(a, device="rocm"), pf.tensor(a)
        chain = lambda t: pf.relu(t * 2 + t.sum(1, keepdim=True)).exp().neg() / 3
        assert np.allclose(chain(x).cpu().numpy(), chain(y).numpy(), rtol=1e-5)
        assert np.allclose(x.cumsum(1).cpu().numpy(), y.cumsum(1).numpy(), rtol=1e-5, atol=1e-6)
        assert np.array_equal(x.t().contiguous().cpu().numpy(), a.T)
        assert np.array_equal(x[::3, 5:].clone().cpu().numpy(), a[::3, 5:])
        for move in (
            lambda t: t.reshape(37, 5, 10).permute(1, 2, 0),
            lambda t: t[:36, 2:50].reshape(4, 9, 48),
            lambda t: t.flip(0, 1),
            lambda t: pf.cat([t, t[:3], t[5:]]),
            lambda t: pf.cat([t[:, :4], t[:, 8:16].to(t.dtype), t], 1),
            lambda t: t.roll((3, -7), (0, 1)),
            lambda t: t.half()[:, ::2].expand(2, 37, 25).transpose(0, 2),
            lambda t: t.tril(-2) + t.triu(3),
        ):
            assert np.array_equal(move(x).contiguous().cpu().numpy(), move(y).numpy())
        assert np.array_equal((x * 10).to(pf.int32).cpu().numpy(), (a * np.float32(10)).astype("int32"))
        for make in (
            lambda d: pf.rand(5, 7, device=d),
            lambda d: pf.randn(1001, device=d),
            lambda d: pf.randn(10, dtype=pf.float64, device=d),
            lambda d: pf.rand(100, dtype=pf.bfloat16, device=d).float(),
            lambda d: pf.randint(-5, 1000, (99,), device=d),
            lambda d: pf.bernoulli(pf.full((77,), 0.3, device=d)),
            lambda d: pf.nn.functional.dropout(pf.ones(123, device=d), 0.4),
        ):
            pf.manual_seed(5)
            here = make("rocm").cpu().numpy()
            pf.manual_seed(5)
            assert np.array_equal(here, make("cpu").numpy())
        """,
        PYFLAME_STANDIN_ARCH=arch,
    )


def test_names(run):
    out = run(
        """
        x = pf.ones(2, device="cuda")
        y = pf.ones(2, device="cuda:0")
        assert str(x.device) == "rocm:0" and x.device.type == "cuda" and x.is_cuda
        assert x.device.backend == "rocm" and x.device == "cuda" and x.device == "hip:0"
        assert pf.cuda.is_available() and pf.cuda.device_count() == 2
        assert pf.rocm_is_available() and pf.rocm_device_count() == 2
        assert str(pf.device("gpu:1")) == "rocm:1"
        assert "Stand-in" in pf.cuda.get_device_name(1)
        raises(pf.DeviceError, "expected one of the 2 that are seen, rocm:0 to rocm:1",
               lambda: pf.ones(2, device="gpu:7"))
        z = x.to("gpu:1")
        assert str(z.device) == "rocm:1" and (z * 3).cpu().tolist() == [3, 3]
        p = pf.cuda.get_device_properties("rocm:1")
        assert (p.major, p.minor, p.warp_size) == (9, 4, 64) and p.total_memory == 8 << 30
        free, total = pf.cuda.mem_get_info(0)
        assert 0 < free <= total == p.total_memory
        pf.set_device("hip:1")
        assert str(pf.get_device()) == "rocm:1" and pf.cuda.current_device() == 1
        pf.synchronize()
        """,
        PYFLAME_STANDIN_DEVICES=2,
    )
    assert out.count("the GPU here is an AMD one") == 1


def test_visible_devices(run):
    run(
        """
        assert pf.rocm_device_count() == 1
        """,
        PYFLAME_STANDIN_DEVICES=4,
        HIP_VISIBLE_DEVICES="2",
    )
    run(
        """
        assert pf.rocm_device_count() == 0 and not pf.rocm_is_available()
        raises(pf.DeviceError, "it sees no GPU; HIP_VISIBLE_DEVICES='' may hide what there is",
               lambda: pf.ones(2, device="rocm"))
        """,
        HIP_VISIBLE_DEVICES="",
    )
    run(
        """
        raises(pf.DeviceError, "got rocm:3; expected rocm:0, the only one that is seen",
               lambda: pf.ones(2, device="gpu:3"))
        """
    )


def test_reasons_are_kept(run, tmp_path):
    run(
        """
        text = pf.backends()["rocm"]
        assert "gfx803" in text and "HIP_VISIBLE_DEVICES" in text, text
        assert pf.rocm_device_count() == 0 and not pf.cuda.is_available()
        text = raises(pf.DeviceError, "gfx803", lambda: pf.ones(2, device="rocm"))
        assert "nor is there a GPU of NVIDIA" in text and text.count("use 'cpu'") == 1, text
        assert pf.ones(2).tolist() == [1, 1]
        """,
        PYFLAME_STANDIN_ARCH="gfx803",
    )
    run(
        """
        assert "/nowhere.so" in pf.backends()["rocm"]
        raises(pf.DeviceError, "/nowhere.so", lambda: pf.ones(2, device="gpu"))
        """,
        PYFLAME_HIP_LIBRARY="/nowhere.so",
    )
    run(
        """
        for name in ("rocm", "cuda"):
            assert f"-DPYFLAME_USE_{name.upper()}=ON" in pf.backends()[name]
        text = raises(pf.DeviceError, "libpyflame_rocm.so", lambda: pf.set_device("gpu"))
        assert "libpyflame_cuda.so" in text and "PYFLAME_BACKEND_PATH" in text
        """,
        PYFLAME_BACKEND_PATH=tmp_path,
    )
    (tmp_path / "libpyflame_rocm.so").write_bytes(b"no library")
    run(
        """
        assert "could not be loaded" in pf.backends()["rocm"]
        """,
        PYFLAME_BACKEND_PATH=tmp_path,
    )
    run(
        """
        raises(pf.BackendError, "/nowhere.so", lambda: pf.arange(2, device="rocm"))
        assert "/nowhere.so" in pf.device_info("rocm")["compiler"]
        """,
        PYFLAME_HIPRTC_LIBRARY="/nowhere.so",
    )


def test_the_runtime_that_is_loaded_already_is_used(run, tmp_path):
    other = tmp_path / "libamdhip64.so.5"  # another framework's, say
    other.write_bytes(standin.HIP.read_bytes())
    run(
        f"""
        del os.environ["PYFLAME_HIP_LIBRARY"]
        ctypes.CDLL({str(other)!r})
        assert pf.device_info("rocm")["runtime"] in ({str(other)!r}, {str(standin.HIP)!r})
        assert (pf.arange(3, device="rocm") + 1).tolist() == [1, 2, 3]
        """
    )


def test_memory_runs_out_and_comes_back(run):
    run(
        """
        x = pf.ones(1 << 18, device="rocm")  # 1 MiB
        text = raises(pf.OutOfMemoryError, "out of memory on rocm:0",
                      lambda: pf.ones(100 << 18, device="rocm"))
        assert "100.0 MiB" in text and "largest: 1.0 MiB" in text
        assert (x + 1).cpu().numpy().min() == 2
        fault("hipMalloc", 1, OOM)  # the allocator releases its caches and tries once more
        y = pf.ones(3 << 18, device="rocm")
        assert y.cpu().numpy().min() == 1
        """,
        PYFLAME_STANDIN_MEMORY=64 << 20,
    )


def test_a_kernel_that_gets_no_workspace_says_what_there_is(run):
    run(
        """
        x = pf.arange(1 << 20, device="rocm").float() * -1  # 4 MiB
        pf.synchronize()
        pf.memory.empty_cache("rocm")
        # Room for what sort returns, not for the keys and positions that it sorts.
        pf.memory.set_memory_limit(pf.memory.memory_reserved("rocm") + (20 << 20), "rocm")
        text = raises(pf.OutOfMemoryError, "pf.sort: workspace of the kernel: out of memory on rocm:0",
                      lambda: (pf.sort(x), pf.synchronize()))
        assert "asked for 8.0 MiB" in text and "4.0 MiB from mul [1048576] float32" in text, text
        assert "a limit of" in text and "use a smaller batch" in text, text
        pf.memory.set_memory_limit(0, "rocm")
        assert pf.sort(x)[0][0].item() == 1 - (1 << 20)
        """,
        PYFLAME_STANDIN_MEMORY=256 << 20,
    )


def test_failures_are_typed_and_pass(run):
    run(
        """
        x = pf.arange(1000, device="rocm").float()
        pf.synchronize()
        rtc.standin_fail_compile(ctypes.c_int64(1))
        text = raises(pf.BackendError, "could not be compiled for gfx942",
                      lambda: ((x + 0.125) * x - 3).cpu())
        assert "a failure that was asked for" in text
        assert ((x + 0.125) * x - 3).cpu()[1].item() == -1.875
        fault("hipModuleLaunchKernel", 1, 1)
        raises(pf.BackendError, "hipErrorInvalidValue", lambda: (x + 2).cpu())
        assert (x + 2).cpu()[0].item() == 2
        fault("hipMemcpyHtoDAsync", 1, 1)
        raises(pf.BackendError, "hipMemcpyHtoDAsync", lambda: pf.tensor([1.0], device="rocm"))
        assert pf.tensor([1.0], device="rocm").item() == 1
        """,
        XDG_CACHE_HOME="/proc/nowhere",
    )


def test_lost_device(run):
    run(
        """
        x = pf.ones(10, device="rocm")
        pf.synchronize()
        fault("kernel", 1, LOST)
        text = raises(pf.DeviceError, "the device is lost", lambda: (x + 1).cpu())
        assert "restart from a checkpoint" in text
        raises(pf.DeviceError, "lost", lambda: (x + 1).cpu())
        assert pf.ones(2).sum().item() == 2  # the CPU goes on
        """
    )


def test_disk_cache(run, tmp_path):
    code = "assert (pf.arange(9, device='rocm') * 3).cpu().tolist() == [3 * i for i in range(9)]\n"
    again = "rtc.standin_fail_compile(ctypes.c_int64(1))\n" + code
    run(code, XDG_CACHE_HOME=tmp_path)
    files = sorted((tmp_path / "pyflame" / "kernels").iterdir())
    assert files and all(f.name.startswith("gfx942-") and f.suffix == ".bin" for f in files)
    run(again, XDG_CACHE_HOME=tmp_path)  # compiles nothing
    for f in files:
        data = bytearray(f.read_bytes())
        data[len(data) // 2] ^= 1
        f.write_bytes(data)
    run(code, XDG_CACHE_HOME=tmp_path)  # what is damaged is made anew
    files[0].write_bytes(files[0].read_bytes()[:100])
    run(code, XDG_CACHE_HOME=tmp_path)
    run(again, XDG_CACHE_HOME=tmp_path)
    run(code, XDG_CACHE_HOME="/proc/nowhere")  # a place that cannot be written
    for f in files:  # a file in the way of the folder
        f.unlink()
    files[0].parent.rmdir()
    files[0].parent.write_bytes(b"")
    run(code, XDG_CACHE_HOME=tmp_path)


def test_disk_cache_of_two_processes(run, tmp_path):
    code = "assert (pf.arange(9, device='rocm') * 3).cpu().tolist() == [3 * i for i in range(9)]\n"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(run, code, XDG_CACHE_HOME=tmp_path) for _ in range(3)]:
            done.result()
    files = sorted((tmp_path / "pyflame" / "kernels").iterdir())
    assert files and all(f.suffix == ".bin" for f in files)  # nobody left a private file
    run("rtc.standin_fail_compile(ctypes.c_int64(1))\n" + code, XDG_CACHE_HOME=tmp_path)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_programs_of_a_training_step(run, tmp_path, precision):
    """hipRTC takes a quarter of a second for each, and kernels over rows are programs with what is
    around them; a second step and a short batch add none."""
    run(
        f"""
        from types import SimpleNamespace
        from pyflame.training.gpt import Trainer
        compiled = lambda: int(pf.debug.device_statistics("rocm")["kernels_compiled"])
        pf.set_device("rocm")
        model = dict(vocab=256, layers=2, width=128, heads=2, context=64, dropout=0.0)
        config = dict(model=model, seed=0, batch=8, weight_decay=0.1, lr=1e-3, warmup=2, steps=9,
                      clip=1.0, precision="{precision}")
        text = SimpleNamespace(train=pf.tensor(list(b"all this is text " * 99), dtype=pf.uint8))
        trainer = Trainer(config, text)
        pf.synchronize()
        before = compiled()
        first = trainer.train_step().item()
        made = compiled() - before
        assert 10 <= made <= 25, made
        assert trainer.train_step().item() < first
        trainer.batches._batch = 6
        trainer.train_step().item()
        assert compiled() - before == made, compiled() - before - made
        """,
        XDG_CACHE_HOME=tmp_path,
        PYFLAME_HIPBLASLT_LIBRARY=standin.FOLDER / "standin" / "products" / "libhipblaslt.so",
    )


def test_zeros_need_no_program(run, tmp_path):
    run(
        """
        x = pf.zeros(1000, device="rocm")
        y, z = pf.zeros(7, 3, dtype=pf.int64, device="rocm"), pf.zeros(3, dtype=pf.bool, device="rocm")
        assert not x.cpu().numpy().any() and not y.cpu().numpy().any() and not z.cpu().numpy().any()
        assert pf.debug.device_statistics("rocm")["kernels_compiled"] == 0
        minus = pf.full((5,), -0.0, device="rocm").cpu().numpy()
        assert np.signbit(minus).all() and not minus.any()
        e = pf.empty(4, 6, device="rocm")
        e.fill_(1.0)
        e[:, 1:3].fill_(0.0)
        assert e.cpu().sum().item() == 16
        """,
        XDG_CACHE_HOME=tmp_path,
    )


def test_programs_are_cut_to_what_they_need(run, tmp_path):
    run(
        """
        x = pf.tensor([float(i) for i in range(8)], device="rocm")
        assert (x + 0.5).cpu().tolist() == [i + 0.5 for i in range(8)]
        assert pf.softmax(x, 0).cpu().argmax().item() == 7
        """,
        XDG_CACHE_HOME=tmp_path,
        PYFLAME_STANDIN_KEEP=tmp_path,
    )
    texts = {f: f.read_text() for f in tmp_path.glob("*.cpp")}
    (add,) = [t for t in texts.values() if "PF_KERNEL(pf_program" in t]
    assert "pf_load" in add and "pf_exp(" not in add and "pf_reduce_pi" not in add
    assert len("\n".join(line for line in add.splitlines() if line)) < 25000
    (softmax,) = [t for t in texts.values() if "softmax_rows" in t]
    assert "pf_exp(" in softmax and "pf_reduce_pi" not in softmax
    # A line keeps its number in its file.
    lines = softmax.splitlines()
    at = max(i for i, t in enumerate(lines) if re.match(r'#line \d+ "softmax.h"', t))
    offset = int(re.match(r"#line (\d+)", lines[at])[1])
    kernel = next(i for i, t in enumerate(lines) if t.startswith("PF_KERNEL(softmax_rows,"))
    source = (standin.PACKAGE.parent / "kernels" / "softmax.h").read_text().splitlines()
    assert source[offset + kernel - at - 2] == lines[kernel]


def test_specialisations_for_true_and_false_are_not_cut_away(run):
    run(
        """
        a = -np.arange(1, 38, dtype="float32") / 8  # sums in float64, not in integers
        assert pf.cumsum(pf.tensor(a, device="rocm"), 0).tolist() == np.cumsum(a).tolist()
        assert pf.cumprod(pf.tensor(a[:6], device="rocm"), 0).tolist() == np.cumprod(a[:6]).tolist()
        """
    )


@pytest.mark.parametrize(
    "line, finding",
    [
        ("float a[4] = {x[0]}, *p = a; x[0] = p[n - 34];", "stack-buffer-overflow"),
        ("x[0] = 1 << n;", "shift exponent 40"),
    ],
)
def test_sanitizers_look_into_kernels(run, line, finding):
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    code = f"""
        k = pf.kernel('extern "C" __global__ void k(float* x, int n) {{ {line} }}', "k")
        k(1, 1, (pf.ones(4, device="rocm"), 40))
        pf.synchronize()
        """
    with pytest.raises(AssertionError, match=finding):
        run(
            code,
            PYFLAME_STANDIN_SANITIZE=1,
            LD_PRELOAD=" ".join(r.stdout.strip() for r in libraries),
            ASAN_OPTIONS="detect_leaks=0",
        )


def test_fork(run):
    run(
        """
        x = pf.ones(10, device="rocm")
        pf.synchronize()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                raises(pf.DeviceError, "forked", lambda: (x + 1).cpu())
                assert pf.ones(3).sum().item() == 3
                os._exit(0)
            except BaseException as e:
                print(e, file=sys.stderr, flush=True)
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (x + 1).cpu().tolist() == [2] * 10
        """
    )


def test_blocking_launches(run):
    run(
        """
        x = pf.ones(10, device="rocm") + 1
        assert x.cpu().tolist() == [2] * 10
        """,
        HIP_LAUNCH_BLOCKING=1,
    )


@pytest.mark.skipif(not (standin.FOLDER / "libpyflame_cuda.so").exists(), reason="no CUDA plug-in")
def test_the_other_vendor(run):
    env = {"PYFLAME_CUDA_LIBRARY": standin.HIP, "PYFLAME_NVRTC_LIBRARY": standin.RTC}
    code = """
        x = pf.ones(3, device="cuda") * 2
        assert str(x.device) == "cuda:0" and x.device.backend == "cuda" and x.tolist() == [2] * 3
        assert pf.cuda.get_device_capability(0 if pf.cuda.device_count() == 1 else 1) == (9, 0)
        assert pf.cuda.get_device_properties("cuda:0").warp_size == 32
        y = pf.arange(6.0, device="cuda").reshape(2, 3)
        assert y.sum(0).tolist() == [3, 5, 7] and y.t().contiguous().tolist() == [[0, 3], [1, 4], [2, 5]]
        """
    out = run(
        code
        + """
        assert pf.rocm_device_count() == 1  # both: each name means its own
        a, b = pf.ones(2, device="rocm"), pf.ones(2, device="gpu:1")
        assert str(a.device) == "rocm:0" and str(b.device) == "cuda:0"
        assert a.to("cuda").tolist() == [1, 1] and (b.to("rocm") + a).tolist() == [2, 2]
        raises(pf.DeviceError, "rocm:0", lambda: a + b)
        """,
        **env,
    )
    assert "the GPU here" not in out
    out = run(
        code
        + """
        assert not pf.rocm_is_available() and pf.rocm_device_count() == 0
        assert str(pf.device("rocm")) == "cuda:0" and str(pf.device("gpu")) == "cuda:0"
        """,
        PYFLAME_HIP_LIBRARY="/nowhere.so",
        **env,
    )
    assert out.count("the GPU here is an NVIDIA one") == 1
    run(
        """
        assert "sm_61" in pf.backends()["cuda"] and "7.0" in pf.backends()["cuda"]
        """,
        PYFLAME_STANDIN_SM="61",
        **env,
    )


@pytest.mark.parametrize("name", ["HIP_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"])
def test_blocking_launches_raise_where_they_are_made(run, name):
    """A program, a kernel of rows and a product: at the call, by its name; then all goes on."""
    run(
        """
        x = pf.rand(40, 30, device="rocm")
        pf.synchronize()
        # Compiled before, so that the next launches are the calls' own.
        calls = {
            "mul": lambda: x * 3,
            "softmax": lambda: pf.softmax(x, 1),
            "sum": lambda: x.sum(1),
            "matmul": lambda: x @ x.t(),
        }
        for call in calls.values():
            call()
        for op, call in calls.items():
            want = call().cpu()
            fault("hipModuleLaunchKernel", 1, 1)
            text = raises(pf.BackendError, "launching", call)
            assert op in text and faults_left("hipModuleLaunchKernel") == 0, (op, text)
            assert pf.equal(call().cpu(), want)
        # One that breaks the device while it runs.
        fault("kernel", 1, LOST)
        text = raises(pf.DeviceError, "lost", lambda: x * 3)
        assert "mul" in text and "LAUNCH_BLOCKING" not in text, text
        """,
        **{name: "1"},
    )


def test_visible_devices_that_are_set_too_late(run):
    run(
        """
        warnings.simplefilter("always")
        assert pf.cuda.device_count() == 2
        with warnings.catch_warnings(record=True) as said:
            os.environ["HIP_VISIBLE_DEVICES"] = "1"
            assert pf.cuda.device_count() == 2 and pf.cuda.is_available()
            raises(pf.DeviceError, "2 that are seen", lambda: pf.ones(2, device="rocm:7"))
        (one,) = [str(w.message) for w in said]
        assert "HIP_VISIBLE_DEVICES is '1' now" in one and "not set" in one, one
        """,
        PYFLAME_STANDIN_DEVICES=2,
    )


def test_a_folder_of_rocm_that_is_not_there(run, tmp_path):
    out = run("assert pf.cuda.device_count() == 1", ROCM_PATH=tmp_path / "none")
    assert out.count("there is no such folder") == 1 and "ROCM_PATH=" in out, out
    assert "ROCM_PATH" not in run("assert pf.cuda.device_count() == 1", ROCM_PATH=tmp_path)
