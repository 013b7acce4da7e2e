"""The Python blocks of the reference for ROCm 6.3 that PyFlame grew from, as they are printed there
for `import torch`, under `pyflame run`: on the CPU where they let one, and on the stand-in for
AMD's runtime. Each test names its block; what a block leaves undefined, the test defines before it.
"""

import json
import subprocess
import sys
import textwrap

import pytest
from hangs import HANG
from standin import FOLDER, HIP, users_environment

pytestmark = pytest.mark.cpu_only
NEEDS_ROCM = pytest.mark.skipif(
    not (HIP.exists() and (FOLDER / "libpyflame_rocm.so").exists()),
    reason="built without -DPYFLAME_USE_ROCM=ON",
)
GPU = pytest.param(True, marks=NEEDS_ROCM, id="gpu")
CPU = pytest.param(False, id="cpu")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The programs share what they compile, with each other only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def run(*parts, gpu=True, cwd, devices=2):
    program = cwd / "program.py"
    program.write_text("import os\nimport torch\n" + "\n".join(map(textwrap.dedent, parts)))
    done = subprocess.run(
        [sys.executable, "-m", "pyflame", "run", str(program)],
        env=users_environment(devices, gpu), cwd=cwd, capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


INFO = """
print(f'PyTorch: {torch.__version__}')
print(f'ROCm version: {torch.version.hip}')
print(f'CUDA available: {torch.cuda.is_available()}')
print(f'GPU count: {torch.cuda.device_count()}')
if torch.cuda.is_available():
    print(f'GPU: {torch.cuda.get_device_name(0)}')
    print(f'Architecture: {torch.cuda.get_device_properties(0).gcnArchName}')
"""


@pytest.mark.parametrize("gpu", [CPU, GPU])
def test_what_is_installed(gpu, tmp_path):  # S2.6
    lines = dict(line.split(": ", 1) for line in run(INFO, gpu=gpu, cwd=tmp_path).splitlines())
    assert lines["PyTorch"] == "2.13.0+pyflame"
    assert (lines["CUDA available"], lines["GPU count"]) == (str(gpu), "2" if gpu else "0")
    if gpu:
        assert lines["GPU"] == "Stand-in for an AMD GPU"
        assert lines["Architecture"].startswith("gfx942") and lines["ROCm version"][0].isdigit()


ANALYZER = """
class VolumeProfileAnalyzer:
    def __init__(self, price_precision=0.25, device='cuda', device_ids=[0], chunk_size=3500):
        os.environ['HIP_VISIBLE_DEVICES'] = '0'
        os.environ['HSA_ENABLE_SDMA'] = '0'
        os.environ['HSA_ENABLE_INTERRUPT'] = '0'

        if torch.cuda.is_available():
            self.device = device
            self.parallel = False
            self.num_gpus = 1
            self.device_ids = [0]

            try:
                torch.cuda.device(0)
            except Exception as e:
                raise RuntimeError(f"GPU 0 not accessible: {e}")
        else:
            raise RuntimeError("CUDA is not available - GPU access required")
"""
PROFILE = """
def calculate_volume_profile_stable(self, session_df):
    prices = torch.tensor(session_df['close'].values,
                        dtype=torch.float32, device=self.device)
    volumes = torch.tensor(session_df['volume'].values,
                         dtype=torch.float32, device=self.device)

    try:
        price_histogram = torch.histc(prices, bins=1000, min=prices.min(), max=prices.max())
        volume_by_price = torch.zeros_like(price_histogram)

        for i in range(len(prices)):
            price_bin = torch.bucketize(prices[i], torch.linspace(prices.min(), prices.max(), 1000))
            volume_by_price[price_bin] += volumes[i]

        return volume_by_price.cpu().numpy()

    except Exception as e:
        raise RuntimeError(f"VPOC calculation failed: {e}")
"""
SESSION = """
import numpy as np

class Column:
    def __init__(self, values):
        self.values = values

rng = np.random.default_rng(5)
close, volume = rng.normal(100, 2, 12), rng.integers(1, 50, 12).astype('f8')
session_df = {'close': Column(close), 'volume': Column(volume)}
edges = np.linspace(close.astype('f4').min(), close.astype('f4').max(), 1000, dtype='f4')
expected = np.zeros(1000)
np.add.at(expected, np.searchsorted(edges, close.astype('f4')), volume)
"""


@NEEDS_ROCM
def test_volume_profile(tmp_path):  # S2.10 and S2.11
    """In PyTorch the profile fails on a GPU: its linspace is on the CPU. Here it goes where the
    tensors are that it is made of."""
    out = run(
        ANALYZER, PROFILE, SESSION,
        """
        analyzer = VolumeProfileAnalyzer()
        profile = calculate_volume_profile_stable(analyzer, session_df)
        moved = np.flatnonzero(profile) - np.flatnonzero(expected)  # an edge, rounded otherwise
        print(profile.dtype, profile.shape, profile.sum() == volume.sum(), abs(moved).max() <= 1)
        """,
        cwd=tmp_path,
    )  # fmt: skip
    assert out == "float32 (1000,) True True\n"


def test_volume_profile_without_a_gpu(tmp_path):  # S2.10 says so itself
    out = run(
        ANALYZER,
        "try:\n    VolumeProfileAnalyzer()\nexcept RuntimeError as e:\n    print(e)",
        gpu=False,
        cwd=tmp_path,
    )
    assert out == "CUDA is not available - GPU access required\n"


MODEL = """
import torch.nn as nn

class ROCm6OptimizedModel(nn.Module):
    def __init__(self, input_size, hidden_sizes=[128, 64], output_size=1):
        super().__init__()

        layer_sizes = [input_size] + hidden_sizes + [output_size]

        self.layers = nn.ModuleList()
        for i in range(len(layer_sizes) - 1):
            self.layers.append(nn.Linear(layer_sizes[i], layer_sizes[i+1]))

        self.activation = nn.SiLU()
        self.layer_norms = nn.ModuleList([
            nn.LayerNorm(size) for size in hidden_sizes
        ])

        self.use_mixed_precision = True

    def forward(self, x):
        try:
            with torch.cuda.amp.autocast(device_type='cuda', dtype=torch.bfloat16):
                for i, layer in enumerate(self.layers[:-1]):
                    x = layer(x)
                    x = self.activation(x)
                    if i < len(self.layer_norms):
                        x = self.layer_norms[i](x)

                output = self.layers[-1](x)
                return output.squeeze(-1)

        except Exception as e:
            raise RuntimeError(f"Model forward pass failed: {e}")
"""


@pytest.mark.parametrize("gpu", [CPU, GPU])
def test_network(gpu, tmp_path):  # S2.12; in PyTorch its autocast refuses device_type
    out = run(
        MODEL,
        f"""
        torch.manual_seed(0)
        device = torch.device('cuda' if {gpu} else 'cpu')
        model = ROCm6OptimizedModel(12, [24, 16]).to(device)
        x = torch.randn(32, 12, device=device)
        y = x[:, 0] - x[:, 3]
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        losses = []
        for _ in range(30 if device.type == 'cpu' else 6):
            out = model(x)
            loss = (out.float() - y).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(tuple(out.shape), out.dtype, losses[-1] < (0.2 if device.type == 'cpu' else 0.9) * losses[0])
        print(sum(p.numel() for p in model.parameters()))
        try:
            model(torch.randn(32, 5, device=device))
        except RuntimeError as e:
            print(str(e).startswith("Model forward pass failed: "), e.__cause__ is not None or e.__context__ is not None)
        """,
        gpu=gpu,
        cwd=tmp_path,
    )  # fmt: skip
    dtype = "torch.bfloat16" if gpu else "torch.float32"  # autocast for a GPU that is not there
    parameters = 12 * 24 + 24 + 24 * 16 + 16 + 16 + 1 + 2 * (24 + 16)
    assert out.splitlines() == [f"(32,) {dtype} True", str(parameters), "True True"]


MEMORY = """
def setup_rocm63_memory_optimizations():
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.9)
    os.environ['PYTORCH_HIP_ALLOC_CONF'] = 'expandable_segments:True,max_split_size_mb:128'

    if hasattr(torch.cuda, 'memory'):
        memory_pool = torch.cuda.memory.MemoryPool()
        torch.cuda.memory.set_allocator(memory_pool)
"""


@NEEDS_ROCM
def test_memory_setup(tmp_path):  # S2.18; in PyTorch the last two names do not exist
    out = run(
        MEMORY,
        """
        setup_rocm63_memory_optimizations()
        total = torch.cuda.get_device_properties(0).total_memory
        print(round(torch.cuda.memory_stats(0)['limit'] / total, 3))
        pool = torch.cuda.memory.get_allocator()
        before = pool.stats()['allocations']
        x = torch.ones(1 << 16, device='cuda')
        print(pool.stats()['allocations'] - before, pool.stats()['allocated_bytes'] >= 1 << 18)
        print((x + 1).sum().item() == 2 << 16)
        """,
        cwd=tmp_path,
    )
    assert out.splitlines() == ["0.9", "1 True", "True"]


BATCH = """
def determine_optimal_batch_size():
    total_memory = torch.cuda.get_device_properties(0).total_memory
    free_memory, _ = torch.cuda.mem_get_info(0)

    usable_memory = free_memory * 0.8
    memory_per_sample = 1024 * 1024
    max_batch_size = int(usable_memory / memory_per_sample)

    return min(max(8, max_batch_size), 64)
"""


@NEEDS_ROCM
def test_batch_size(tmp_path):  # S2.19
    assert run(BATCH, "print(determine_optimal_batch_size())", cwd=tmp_path) == "64\n"


SCALER = """
def setup_mixed_precision_training():
    from torch.cuda.amp import GradScaler

    scaler = GradScaler()
    return scaler
"""


@NEEDS_ROCM
def test_scaler(tmp_path):  # S2.20, and the step that its user writes
    out = run(
        SCALER,
        """
        scaler = setup_mixed_precision_training()
        w = torch.ones(3, device='cuda', requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.5)
        for factor in (2.0, float('inf')):
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print(w.tolist(), scaler.get_scale())
        """,
        cwd=tmp_path,
    )
    assert out.splitlines() == ["[0.0, 0.0, 0.0] 65536.0", "[0.0, 0.0, 0.0] 32768.0"]


COMPILE = """
def optimize_model_with_compile(model):
    if hasattr(torch, 'compile'):
        try:
            compiled_model = torch.compile(
                model,
                mode='reduce-overhead',
                fullgraph=False
            )
            return compiled_model
        except Exception as e:
            print(f"torch.compile failed: {e}, using original model")
            return model
    return model
"""


@pytest.mark.parametrize("gpu", [CPU, GPU])
def test_compiled_model(gpu, tmp_path):  # S2.21 and S2.33: what comes back works as the model does
    out = run(
        COMPILE,
        f"""
        device = 'cuda' if {gpu} else 'cpu'
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(device)
        compiled = optimize_model_with_compile(model)
        x = torch.randn(5, 4, device=device)
        print(torch.equal(compiled(x), model(x)), len(list(compiled.parameters())))
        """,
        gpu=gpu,
        cwd=tmp_path,
    )  # fmt: skip
    assert out.splitlines()[-1] == "True 4"


PARALLEL = """
def setup_dataparallel(model):
    if torch.cuda.device_count() > 1:
        device = torch.device('cuda:0')
        model = model.to(device)

        if torch.cuda.device_count() > 1:
            model = torch.nn.DataParallel(model, device_ids=[0])
            print(f"Using DataParallel with {torch.cuda.device_count()} GPUs")

    return model
"""


@NEEDS_ROCM
@pytest.mark.parametrize("devices", [1, 2])
def test_data_parallel(devices, tmp_path):  # S2.23
    out = run(
        PARALLEL,
        """
        inner = torch.nn.Linear(4, 3)
        model = setup_dataparallel(inner)
        x = torch.randn(5, 4, device=inner.weight.device)
        print(type(model).__name__, inner.weight.device, torch.equal(model(x), inner(x)))
        """,
        cwd=tmp_path,
        devices=devices,
    )
    said = ["Using DataParallel with 2 GPUs", "DataParallel cuda:0 True"]
    assert out.splitlines() == (said if devices == 2 else ["Linear cpu True"])


MONITOR = """
def monitor_gpu_memory():
    device = torch.cuda.current_device()

    total_memory = torch.cuda.get_device_properties(device).total_memory
    allocated_memory = torch.cuda.memory_allocated(device)
    reserved_memory = torch.cuda.memory_reserved(device)
    free_memory = total_memory - reserved_memory

    return {
        'total_gb': total_memory / 1e9,
        'allocated_gb': allocated_memory / 1e9,
        'reserved_gb': reserved_memory / 1e9,
        'free_gb': free_memory / 1e9,
        'utilization_percent': (allocated_memory / total_memory) * 100
    }
"""
CLEANUP = """
def aggressive_memory_cleanup():
    torch.cuda.empty_cache()

    import gc
    gc.collect()

    if hasattr(torch.cuda, 'reset_peak_memory_stats'):
        torch.cuda.reset_peak_memory_stats()

    print("Aggressive memory cleanup completed")
"""


@NEEDS_ROCM
def test_memory_is_watched_and_cleaned(tmp_path):  # S2.24 and S2.25, beside the library's own
    out = run(
        MONITOR, CLEANUP,
        """
        import json
        from pyflame import memory

        x = torch.ones(1 << 20, device='cuda')
        y = torch.ones(1 << 22, device='cuda')
        torch.cuda.synchronize()
        first, own = monitor_gpu_memory(), memory.monitor_gpu_memory()
        del y
        peak = torch.cuda.max_memory_allocated()
        aggressive_memory_cleanup()
        after = monitor_gpu_memory()
        print(json.dumps([first, own, after]))
        print(peak > torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated())
        """,
        cwd=tmp_path,
    )  # fmt: skip
    said, numbers, peak = out.splitlines()
    first, own, after = json.loads(numbers)
    assert said == "Aggressive memory cleanup completed" and peak == "True"
    assert first["allocated_gb"] >= 5 * 4 * 2**20 / 1e9 and own.keys() >= first.keys()
    assert own["allocated_gb"] == pytest.approx(first["allocated_gb"])
    assert after["reserved_gb"] < first["reserved_gb"] and after["allocated_gb"] >= 4 * 2**20 / 1e9


CONFIG = """
test_config = {
    'batch_size': 8,
    'epochs': 2,
    'data_fraction': 0.01,  # 1% of data for testing
    'hidden_layers': '32,16'
}
"""


def test_configuration(tmp_path):  # S2.30: the trainer of tables takes it as a file
    out = run(
        CONFIG,
        """
        import json, subprocess, sys

        rows = ['a,b,target'] + [f'{i % 7},{i % 5},{i % 7 - i % 5}' for i in range(2000)]
        open('data.csv', 'w').write('\\n'.join(rows))
        json.dump(test_config, open('config.json', 'w'))
        done = subprocess.run(
            [sys.executable, '-m', 'pyflame', 'train', 'tabular', '--data', 'data.csv', '--target',
             'target', '--config', 'config.json', '--out', 'run', '--device', 'cpu'],
            capture_output=True, text=True)
        print(done.stderr[-2000:] if done.returncode else 'trained')
        """,
        gpu=False,
        cwd=tmp_path,
    )
    assert out.splitlines()[-1] == "trained"


EFFICIENT = """
from torch.cuda.amp import GradScaler

# Good: Use gradient checkpointing for large models
model.enable_gradient_checkpointing()

# Good: Use mixed precision
scaler = GradScaler()
with torch.cuda.amp.autocast():
    output = model(input)

# Bad: Accumulate gradients without cleanup
# Good: Clear gradients regularly
optimizer.zero_grad(set_to_none=True)
"""


@pytest.mark.parametrize("gpu", [CPU, GPU])
def test_memory_efficiency(gpu, tmp_path):  # S2.32; in PyTorch modules have no such method
    out = run(
        f"""
        device = 'cuda' if {gpu} else 'cpu'
        model = torch.nn.Sequential(*[torch.nn.Linear(6, 6) for _ in range(4)]).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        input = torch.randn(3, 6, device=device)
        model(input).sum().backward()
        plain = [p.grad.clone() for p in model.parameters()]
        """,
        EFFICIENT,
        """
        print(output.dtype, all(p.grad is None for p in model.parameters()))
        model(input).sum().backward()
        print(all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), plain)))
        """,
        gpu=gpu,
        cwd=tmp_path,
    )
    assert out.splitlines() == [f"torch.{'float16' if gpu else 'float32'} True", "True"]


LOADER = """
compiled_model = torch.compile(model, mode='reduce-overhead') if hasattr(torch, 'compile') else model

# Good: Optimize data loading
dataloader = DataLoader(
    dataset,
    batch_size=32,
    num_workers=8,
    pin_memory=True,
    persistent_workers=True
)
"""


def test_loading(tmp_path):  # S2.33
    out = run(
        """
        from torch.utils.data import DataLoader, TensorDataset

        model = torch.nn.Linear(2, 1)
        dataset = TensorDataset(torch.arange(200.).reshape(100, 2), torch.arange(100))
        """,
        LOADER,
        """
        for epoch in range(2):
            seen = torch.cat([i for _, i in dataloader])
            print([len(x) for x, _ in dataloader], torch.equal(seen, torch.arange(100)))
        """,
        gpu=False,
        cwd=tmp_path,
    )
    assert out.splitlines() == ["[32, 32, 32, 4] True"] * 2


TRAINING = """
def training_loop_with_cleanup():
    for epoch in range(num_epochs):
        for batch_idx in range(batches):
            steps.append(batch_idx)

            # Cleanup every 100 batches
            if batch_idx % 100 == 0:
                torch.cuda.empty_cache()
                gc.collect()
"""


@pytest.mark.parametrize("gpu", [CPU, GPU])
def test_cleaning_while_training(gpu, tmp_path):  # S2.35, with the loop that it leaves out
    out = run(
        "import gc\nnum_epochs, batches, steps = 2, 250, []",
        TRAINING,
        "training_loop_with_cleanup()\nprint(len(steps))",
        gpu=gpu,
        cwd=tmp_path,
    )
    assert out == "500\n"
