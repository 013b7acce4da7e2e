"""Writes one page per family of operations from the table that the library itself runs by."""

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
    "lower": "Under autocast: computed in its lower dtype.",
    "raise": "Under autocast: computed in float32.",
    "promote": "Under autocast: computed in the widest dtype of its tensors.",
}


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
        if overloads[0]["autocast"]:
            lines.append(UNDER_AUTOCAST[overloads[0]["autocast"]])
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
        "(`pyflame.ops.list()` prints their names). Pointwise operations that stand between two "
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


if __name__ == "__main__":
    print(write_operations(Path(__file__).resolve().parent / "generated"), "operations")
