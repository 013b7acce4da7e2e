"""Writes one page per family of operations from the table that the library itself runs by, and one of
all layers, optimizers and their like from the modules."""

import importlib
import inspect
import re
import shutil
from pathlib import Path

import pyflame as pf


def slug(family):
    return re.sub(r"[^a-z0-9]+", "_", family.lower()).strip("_")


def where(row):
    name, places = row["name"], []
    if row["function"]:
        places.append(f"`pyflame.{name}`")
    if row["method"]:
        places.append(f"`Tensor.{name}`")
    if row["functional"]:
        places.append(f"`pyflame.nn.functional.{name}`")
    return ", ".join(places)


UNDER_AUTOCAST = {
    "": "in the dtype of its operands",
    "lower": "in its lower dtype",
    "raise": "in float32",
    "promote": "in the widest dtype of its tensors",
}


def under_autocast(row):
    gpu, cpu = row["autocast"], row["autocast_cpu"]
    if not gpu and not cpu:
        return []
    where = "" if gpu == cpu else f" on GPUs, {UNDER_AUTOCAST[cpu]} on CPUs"
    return [f"Under autocast: computed {UNDER_AUTOCAST[gpu]}{where}."]


def support(row):
    """What an operation takes and what calculates it."""
    if not row["dtypes"]:
        return []
    lines = ["", f"Dtypes: {', '.join(row['dtypes'])}."]
    if row["cpu"] == row["gpu"]:
        return [*lines, f"CPUs and GPUs: {row['cpu']}."]
    return [*lines, f"CPUs: {row['cpu']}. GPUs: {row['gpu']}."]


def page(family, rows):
    lines = [f"# {family[0].upper() + family[1:]}", ""]
    by_name = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    for name in sorted(by_name):
        overloads = by_name[name]
        lines += [f"## `{name}`", "", "```text"]
        lines += [row["schema"] for row in overloads]
        lines += ["```", ""]
        seen = []
        for row in overloads:
            doc = row["doc"].strip()
            if doc and doc not in seen:
                seen.append(doc)
                # Documentation strings are plain text: keep their markup characters.
                lines += [re.sub(r"([*_<>\[\]`|\\])", r"\\\1", doc), ""]
        lines.append(f"Available as {where(overloads[0])}.")
        if not any(row["differentiable"] for row in overloads):
            lines.append("Not differentiable.")
        lines += under_autocast(overloads[0])
        lines += support(overloads[0])
        lines.append("")
    return "\n".join(lines)


def write_operations(folder):
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    families = {}
    for row in pf.ops.table():
        if row["function"] or row["method"] or row["functional"]:
            families.setdefault(row["family"], []).append(row)
    names = {row["name"] for rows in families.values() for row in rows}
    index = [
        "# Operations",
        "",
        f"{len(names)} operations, as registered in the table that the library runs by "
        "(`pyflame.ops.list()` has their names, `pyflame.ops.support(name)` what each takes and what "
        "calculates it). Dtypes are those of the main operand that were tried and not refused; kernels "
        "are PyFlame's own where no library is named. Pointwise operations that stand between two "
        "others run in one pass over memory, without being asked.",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        "",
    ]
    for family in sorted(families):
        (folder / f"{slug(family)}.md").write_text(page(family, families[family]))
        index.append(slug(family))
    index += ["```", ""]
    (folder / "index.md").write_text("\n".join(index))
    return len(names)


# Heading and modules whose classes and functions are listed under it.
SECTIONS = (
    ("Linear layers, dropout, shapes", ("nn.layers", "nn.embedding")),
    ("Activations", ("nn.activations",)),
    ("Convolutions", ("nn.convolution",)),
    ("Norms", ("nn.normalization",)),
    ("Pooling", ("nn.pooling",)),
    ("Resampling, columns, pixels", ("nn.resampling",)),
    ("Padding", ("nn.padding",)),
    ("Recurrent layers", ("nn.recurrent",)),
    ("Attention", ("nn.multihead", "nn.transformer")),
    ("Losses", ("nn.losses", "nn.heads")),
    ("Containers and modules", ("nn.containers", "nn.module", "nn.parameter", "nn.parallel")),
    ("Of the first input's size", ("nn.lazy",)),
    ("nn.init", ("nn.init",)),
    ("nn.utils", ("nn.utils", "nn.utils.rnn")),
    ("nn.utils.parametrize", ("nn.utils.parametrize", "nn.utils.parametrizations")),
    ("nn.utils.prune", ("nn.utils.prune",)),
    ("nn.utils.stateless", ("nn.utils.stateless",)),
    (
        "nn.attention",
        ("nn.attention", "nn.attention.bias", "nn.attention.flex_attention", "nn.attention.varlen"),
    ),
    ("optim", ("optim",)),
    ("optim.lr_scheduler", ("optim.lr_scheduler",)),
    ("optim.swa_utils", ("optim.swa_utils",)),
    ("utils.data", ("utils.data",)),
)


def escaped(text):
    return re.sub(r"([*_<>\[\]`|\\])", r"\\\1", text)


def first_sentence(value):
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    end = re.search(r"[.:](?= [A-Z]|$)", text)
    return text[: end.start()] if end else text


def listed_names(path):
    """The public names of a module that are its own classes and functions, or offered by __all__."""
    module = importlib.import_module("pyflame." + path)
    offered = getattr(module, "__all__", None)
    for name in sorted(offered or dir(module), key=str.lower):
        value = getattr(module, name)
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        home = str(getattr(value, "__module__", ""))
        if offered is None and home != module.__name__:
            continue
        if path.startswith("nn.") and path.count(".") == 1 and path != "nn.init":
            import pyflame

            if getattr(pyflame.nn, name, None) is not value:  # a helper
                continue
        yield name, value


def write_layers(path):
    lines = [
        "# All layers and optimizers",
        "",
        "Printed from the modules. Functions of `nn.functional` stand among the "
        "[operations](index.md) and in the list at the end.",
        "",
    ]
    count = 0
    for heading, modules in SECTIONS:
        lines += [f"## {heading}", ""]
        for module in modules:
            for name, value in listed_names(module):
                says = first_sentence(value)
                lines.append(f"* `{name}`" + (f": {escaped(says)}" if says else ""))
                count += 1
        lines.append("")
    names = [n for n in dir(pf.nn.functional) if callable(getattr(pf.nn.functional, n))]
    lines += ["## nn.functional", "", ", ".join(f"`{n}`" for n in names), ""]
    Path(path).write_text("\n".join(lines))
    return count


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    print(write_operations(here / "generated"), "operations")
    print(write_layers(here / "generated" / "layers.md"), "layers and optimizers")
