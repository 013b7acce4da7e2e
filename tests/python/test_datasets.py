"""pyflame.datasets: what the readers give, and what they say of files that are damaged."""

import builtins
import io
import os
import random
import zipfile

import numpy as np
import pytest

import pyflame as pf
from pyflame import datasets
from pyflame import transforms as T
from pyflame.utils.data import DataLoader, Subset, TensorDataset

pytestmark = pytest.mark.cpu_only  # they read files with NumPy; Digits and CSV move by one .to()


def mutated(data, dice):
    """Bytes changed, cut out, doubled, or cut off."""
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(data) + 1)
        n = dice.choice((1, 1, 2, 8, 100))
        how = dice.randrange(5)
        if how == 0:
            data[at : at + n] = bytes(dice.randrange(256) for _ in range(n))
        elif how == 1:
            del data[at : at + n]
        elif how == 2:
            data[at:at] = data[at : at + n]
        elif how == 3:
            del data[at:]
        elif at < len(data):
            data[at] ^= 1 << dice.randrange(8)
    return bytes(data)


def fuzz(path, good, read, rounds):
    """Reads damaged files: each gives samples or a FileError that names it."""
    dice, refused = random.Random(12), 0
    for _ in range(rounds):
        path.write_bytes(mutated(good, dice))
        try:
            dataset = read(path)
            for i in (0, len(dataset) - 1):
                dataset[i]
        except pf.FileError as e:
            assert str(path) in str(e), e
            refused += 1
        except pf.IndexError:
            assert len(dataset) == 0
    assert refused > rounds // 20


# ---- digits -------------------------------------------------------------------------------------


def test_digits():
    from sklearn.datasets import load_digits

    raw = load_digits()
    digits = datasets.Digits()
    assert len(digits) == 1797
    image, label = digits[5]
    assert image.shape == (1, 8, 8) and image.dtype == pf.float32
    np.testing.assert_array_equal(image[0].numpy() * 16, raw.images[5])
    assert label.item() == raw.target[5]
    x, y = next(iter(DataLoader(Subset(digits, [3, 1, 2]), 3)))
    np.testing.assert_array_equal(x[:, 0].numpy() * 16, raw.images[[3, 1, 2]])
    assert y.tolist() == raw.target[[3, 1, 2]].tolist()


def test_a_transform_gets_batches_if_it_takes_them():
    seen = []

    class Batched:
        batches = True

        def __call__(self, x):
            seen.append(tuple(x.shape))
            return x + 1

    x, _ = next(iter(DataLoader(datasets.Digits(Batched()), 4)))
    assert seen == [(4, 1, 8, 8)] and x.min().item() == 1
    seen.clear()
    single = lambda x: seen.append(tuple(x.shape)) or x  # noqa: E731
    next(iter(DataLoader(datasets.Digits(single), 4)))
    next(iter(DataLoader(Subset(datasets.Digits(T.Compose([T.ToTensor(), single])), [1, 2]), 4)))
    assert seen == [(1, 8, 8)] * 6


@pytest.mark.parametrize("package", ["sklearn", "PIL"])
def test_a_package_that_is_not_there(package, monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    pip = {"sklearn": "scikit-learn", "PIL": "pillow"}[package]
    with pytest.raises(pf.NotSupportedError, match=f"pip install {pip}"):
        datasets.Digits() if package == "sklearn" else datasets.ImageFolder(tmp_path)


# ---- NumPy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "i2", ">i8", "u1", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(dtype, order, tmp_path):
    x = (np.arange(30).reshape(5, 3, 2) % 7).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    dataset = datasets.NumPyArrays(tmp_path / "x.npy")
    assert not dataset.arrays[""].flags.writeable and len(dataset) == 5
    np.testing.assert_array_equal(dataset[-1][0].numpy(), x[-1])
    for at in ([1, 2, 3], [4, 0, 0]):
        (batch,) = next(iter(DataLoader(Subset(dataset, at), 3)))
        np.testing.assert_array_equal(batch.numpy(), x[at])
    with pytest.raises(IndexError):
        dataset[5]
    assert len(list(dataset)) == 5


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(save, tmp_path):
    x, y = np.random.default_rng(0).random((7, 3), np.float32), np.arange(7)
    save(tmp_path / "d.npz", x=x, y=y, other=np.zeros(3))
    dataset = datasets.NumPyArrays(tmp_path / "d.npz", ["y", "x"], transform=lambda t: t * 10)
    assert (dataset._mappings._mappings != []) == (save is np.savez)
    seen, pictures = next(iter(DataLoader(dataset, 7)))
    np.testing.assert_array_equal(seen.numpy(), y * 10)
    np.testing.assert_array_equal(pictures.numpy(), x)
    for names, words in ((["z"], "no array 'z'"), (None, "numbers of entries")):
        with pytest.raises(pf.FileError, match=words):
            datasets.NumPyArrays(tmp_path / "d.npz", names)
    save(tmp_path / "empty.npz", x=np.zeros((0, 3)))
    assert len(datasets.NumPyArrays(tmp_path / "empty.npz")) == 0


def npy(x):
    out = io.BytesIO()
    np.save(out, x)
    return out.getvalue()


def npz(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def test_fuzzed_arrays(tmp_path):
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    fuzz(tmp_path / "x.npy", npy(x), datasets.NumPyArrays, 1500)
    for save in (np.savez, np.savez_compressed):
        fuzz(tmp_path / "x.npz", npz(save, x=x, y=x[:, 0]), datasets.NumPyArrays, 800)


def test_arrays_that_claim_or_run(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(pf.FileError, match="dtype object"):
        datasets.NumPyArrays(path)
    good = npy(np.zeros((10, 10), np.float32))
    for shape in (b"(10**20, )", b"(10000000", b"(-1, -10)", b"(True, 1)"):
        bad = good.replace(b"(10, 10),".ljust(len(shape)), shape.ljust(9), 1)
        path.write_bytes(bad)
        with pytest.raises(pf.FileError, match="x.npy"):
            datasets.NumPyArrays(path)
    path.write_bytes(npy(np.zeros((0, 1), np.float32)).replace(b"(0, 1)", b"(0,9" + b")" + b" "))
    assert len(datasets.NumPyArrays(path)) == 0
    # A member that claims to unpack to more than its bytes can hold.
    packed = bytearray(npz(np.savez_compressed, x=np.zeros(1000)))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        size = archive.infolist()[0].file_size
    claimed = bytes(packed).replace(size.to_bytes(4, "little"), (2**31).to_bytes(4, "little"))
    (tmp_path / "x.npz").write_bytes(claimed)
    with pytest.raises(pf.FileError, match="claims 2147483648 bytes"):
        datasets.NumPyArrays(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file(kind, tmp_path):
    path = tmp_path / "x.npy"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    for read in (
        datasets.NumPyArrays,
        lambda p: datasets.Tokens(p, 3),
        lambda p: datasets.CSV(p, {"a": pf.int64}),
        datasets.load_image,
    ):
        with pytest.raises(pf.FileError, match="x.npy"):
            read(path)


# ---- tokens -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64"])
def test_tokens(dtype, tmp_path):
    tokens = np.arange(101).astype(dtype)
    tokens.tofile(tmp_path / "t.bin")
    np.save(tmp_path / "t.npy", tokens)
    for path in ("t.bin", "t.npy"):
        dataset = datasets.Tokens(tmp_path / path, 10, dtype, vocab=101)
        assert len(dataset) == 10
        x, y = dataset[9]
        assert x.tolist() == [*range(90, 100)] and y.tolist() == [*range(91, 101)]
        assert x.dtype == pf.int64
        x, y = next(iter(DataLoader(Subset(dataset, [3, 0]), 2)))
        assert x[:, 0].tolist() == [30, 0] and y[:, -1].tolist() == [40, 10]
        dense = datasets.Tokens(tmp_path / path, 10, getattr(pf, dtype), stride=3)
        assert len(dense) == 31 and dense[30][0][0].item() == 90
        small = datasets.Tokens(tmp_path / path, 10, dtype, vocab=55)
        small[4]
        with pytest.raises(pf.FileError, match=r"has 55 as token number 55; .* 0 to 54"):
            small[5]


def test_tokens_that_are_none(tmp_path):
    path = tmp_path / "t"
    for size, words in ((7, "has 7 bytes"), (0, "has 0 tokens"), (20, "has 10 tokens")):
        path.write_bytes(bytes(size))
        with pytest.raises(pf.FileError, match=words):
            datasets.Tokens(path, 10)
    for bad in ({"length": 0}, {"length": 1, "dtype": "float32"}, {"length": 1, "stride": -1}):
        with pytest.raises(pf.ValueError):
            datasets.Tokens(path, **bad)
    np.save(tmp_path / "f.npy", np.zeros(100))
    with pytest.raises(pf.FileError, match="float64"):
        datasets.Tokens(tmp_path / "f.npy", 10)


def test_fuzzed_tokens(tmp_path):
    tokens = np.arange(100, dtype=np.int32)
    fuzz(tmp_path / "t", tokens.tobytes(), lambda p: datasets.Tokens(p, 9, "int32", vocab=100), 500)
    fuzz(tmp_path / "t.npy", npy(tokens), lambda p: datasets.Tokens(p, 9, vocab=100), 500)


# ---- tables -------------------------------------------------------------------------------------

TABLE = b'width,"the, kind",n,good\n1.5,b,3,true\n-2e3,a,-4,no\n\n inf , b ,5,1\n'
COLUMNS = {"width": pf.float32, "n": pf.int16, "good": pf.bool, "the, kind": str}


def table(path, data, columns=COLUMNS, target="the, kind", **rest):
    path.write_bytes(data)
    return datasets.CSV(path, columns, target, **rest)


def test_csv(tmp_path):
    dataset = table(tmp_path / "t.csv", TABLE)
    assert len(dataset) == 3 and dataset.classes == {"the, kind": ["a", "b"]}
    x, y = next(iter(DataLoader(dataset, 3)))
    assert x.tolist() == [[1.5, 3, 1], [-2000, -4, 0], [float("inf"), 5, 1]]
    assert y.tolist() == [1, 0, 1] and x.dtype == pf.float32
    assert dataset.column["n"].dtype == pf.int16
    assert dataset[1][0].tolist() == [-2000, -4, 0]
    other = table(tmp_path / "t.csv", b"1;2\n3;4", {1: pf.int64}, None, delimiter=";", header=False)
    assert [s[0].tolist() for s in other] == [[2], [4]]
    assert len(table(tmp_path / "t.csv", b"\xef\xbb\xbfa\n", {"a": pf.int64}, "a")) == 0


def test_csv_rows_that_are_bad(tmp_path):
    path = tmp_path / "t.csv"
    number = {"a": pf.int8, "b": pf.float16}
    for data, words in (
        (b"a,b\n1,2\n3\n", "line 3: 1 cells; expected 2"),
        (b"a,b\n1,2,3\n", "line 2: 3 cells"),
        (b"a,b\n1,2\n\n128,1\n", r"line 4: column 'a' is '128', which .*int8 cannot hold"),
        (b"a,b\n1,65520000\n", "line 2: column 'b' .*float16 cannot hold"),
        (b"a,b\n1_0,2\n", "line 2: column 'a' is '1_0', expected"),
        (b"a,b\n1,x\n", "line 2: column 'b' is 'x', expected"),
        (b"a,b\n1,\n", r"line 2: column 'b' is missing; .*fill="),
        (b"a,b\n1,NaN\n", "line 2: column 'b' is missing"),
        (b"a,a,b\n1,1,1\n", "more than one column 'a'"),
        (b"b,c\n1,1\n", "no column 'a'"),
        (b'a,b\n1,"2\n', "line 2: "),
        (b"a,b\n1,\xff\n", "utf-8"),
        (b"", "is empty"),
        (b"a,b\n1," + b"1" * 2**20, "longer than"),
    ):
        with pytest.raises(pf.FileError, match=words) as e:
            table(path, data, number, "a")
        assert str(path) in str(e.value)
    filled = table(path, b"a,b\n1,\n?,2\n", number, "a", fill={"a": -1, "b": 0})
    assert [(x.tolist(), y.item()) for x, y in filled] == [([0], 1), ([2], -1)]
    for bad in ({"columns": []}, {"columns": {"a": int}}, {"target": "z"}, {"delimiter": "--"}):
        with pytest.raises(pf.ValueError):
            table(path, TABLE, **bad)


def test_fuzzed_tables(tmp_path):
    fuzz(tmp_path / "t.csv", TABLE * 1, lambda p: datasets.CSV(p, COLUMNS, "n"), 2000)


# ---- pictures -----------------------------------------------------------------------------------


def folders(root, suffix=".png"):
    from PIL import Image

    dice = np.random.default_rng(0)
    pictures = {}
    for name in ("dog", "cat"):
        (root / name / "more").mkdir(parents=True)
        for i in ("b", "more/a"):
            pixels = dice.integers(0, 256, (5, 4, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}{suffix}")
            pictures[f"{name}/{i}{suffix}"] = pixels
        (root / name / "notes.txt").write_text("no picture")
    return pictures


def test_image_folder(tmp_path):
    pytest.importorskip("PIL")
    pictures = folders(tmp_path)
    dataset = datasets.ImageFolder(tmp_path, T.ToTensor())
    assert dataset.classes == ["cat", "dog"] and dataset.class_to_idx == {"cat": 0, "dog": 1}
    names = [os.path.relpath(path, tmp_path) for path, _ in dataset.samples]
    assert names == ["cat/b.png", "cat/more/a.png", "dog/b.png", "dog/more/a.png"]
    for workers in (0, 2):
        x, y = next(iter(DataLoader(dataset, 4, num_workers=workers)))
        want = np.stack([pictures[n] for n in names]).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal((x * 255).round().numpy(), want)
        assert y.tolist() == [0, 0, 1, 1] == dataset.targets
    assert datasets.load_image(dataset.samples[0][0], "L").shape == (1, 5, 4)
    (tmp_path / "cat" / "b.png").write_bytes(b"no picture")
    with pytest.raises(pf.FileError, match="cat/b.png' is no picture"):
        dataset[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(pf.FileError, match="empty' has no pictures"):
        datasets.ImageFolder(tmp_path)
    with pytest.raises(pf.FileError, match="nowhere"):
        datasets.ImageFolder(tmp_path / "nowhere")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".tif", ".ppm", ".webp"])
def test_fuzzed_pictures(suffix, tmp_path):
    pytest.importorskip("PIL")
    folders(tmp_path, suffix)
    path = tmp_path / "dog" / f"b{suffix}"
    good = path.read_bytes()
    dataset = datasets.ImageFolder(tmp_path)
    at = [p for p, _ in dataset.samples].index(str(path))
    fuzz(path, good, lambda p: Subset(dataset, [at]), 200)


def test_a_picture_that_claims_many_pixels(tmp_path):
    pytest.importorskip("PIL")
    (tmp_path / "x.ppm").write_bytes(b"P6 100000 100000 255\n" + bytes(100))
    with pytest.raises(pf.FileError, match="DecompressionBomb"):
        datasets.load_image(tmp_path / "x.ppm")


def test_workers_give_the_same(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40.0).reshape(20, 2))
    dataset = datasets.NumPyArrays(tmp_path / "x.npy")
    want = TensorDataset(pf.arange(40, dtype=pf.float64).reshape(20, 2))
    for workers in (0, 2):
        got = [b[0].tolist() for b in DataLoader(dataset, 7, num_workers=workers)]
        assert got == [b[0].tolist() for b in DataLoader(want, 7)]
