"""What report() says of a compiled function, and pictures of its memory."""

import html

COLUMNS, ROWS = 72, 16  # of the picture in characters
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _mib(n):
    return f"{n / 2**20:.1f} MiB"


def text(step, launches, plan, svg):
    """See pyflame.compiler.report()."""
    lines = [f"{step.replays} calls replayed, {step.always} run by Python"]
    if step.reason:
        lines.append(f"  some run as always: {step.reason}")
    last = None
    for number, alike in enumerate(list(step.variants.values()), 1):
        for v in alike:
            lines.append(f"  arguments {number}: {_state(v)}")
            if (capture := v.capture) is None:  # another thread may forget it meanwhile
                continue
            last = capture
            lines += [f"    {line}" for line in _passes(v, capture)]
            if launches:
                lines += [f"    {line}" for line in _launches(capture)]
            if plan:
                lines += [f"    {line}" for line in picture(capture.outcome())]
    if step.misses:
        lines.append("  ran as always:")
        for (reason, where), n in list(step.misses.items()):
            lines.append(f"    {n:>6}x {reason}{f'   at {where}' if where else ''}")
    if svg is not None:
        if last is None:
            raise ValueError("report: got svg=, and nothing is captured; expected a captured step")
        with open(svg, "w", encoding="utf-8") as f:
            f.write(svg_of(last.outcome()))
    return "\n".join(lines)


def _state(v):
    if v.reason:
        return f"runs as always: {v.reason}"
    capture, recording, region = v.capture, v.recording, v.region
    if capture is None or recording is None:
        return "not captured yet"
    said = (
        f"{capture.launches()} launches, {_mib(capture.pool_bytes())} of memory, "
        f"{recording.calls()} calls of optimizers or schedules between them"
    )
    if region is not None and region.asked is not None:
        said += ", forward and backward"
    if graphs := capture.graphs():
        said += f"; {graphs}"
    if v.renewals:
        said += f"; captured again {v.renewals} times"
    return said


def _passes(v, capture):
    outcome = capture.outcome()
    if v.where:
        yield f"captured at {v.where}"
    for reason, where in list(v.renewed):
        yield f"captured again{f' at {where}' if where else ''}: {reason}"
    fates = [l[2] for l in capture.list()]
    groups = sum(1 for l in capture.list() if l[3] > 1)
    yield f"{groups} of the launches are a kernel with programs beside it"
    if not outcome["planned"]:
        yield "not planned yet: that is at its first replay"
        return
    yield (
        f"{fates.count('dead')} launches dropped that nobody reads, {fates.count('equal')} that another "
        f"makes; {fates.count('constant')} run when their tensors have changed"
        + (
            f", {outcome['copied']} of them casts that an optimizer makes"
            if outcome["copied"]
            else ""
        )
    )
    arena, held, pool = (outcome[k] for k in ("arena_bytes", "held_bytes", "pool_bytes"))
    if not arena:
        yield f"memory as its run had it, {_mib(pool)}"
        return
    yield (
        f"memory: {_mib(arena)} in one block ({_mib(outcome['bound_bytes'])} are in use at once), "
        f"{_mib(held)} of tensors that the program has; its run took {_mib(pool)}: "
        f"{_mib(max(pool - arena - held, 0))} saved"
    )


def _launches(capture):
    for number, (name, where, fate, parts, seconds) in enumerate(capture.list()):
        said = f"{number:>5} {name}"
        if parts > 1:
            said += f" and {parts - 1} programs"
        if fate != "runs":
            said += f" [{fate}]"
        if seconds:
            said += f"  {seconds * 1e6:.1f} us"
        if where:
            said += f"   at {where}"
        yield said


def picture(outcome):
    """Lines: the arena upwards, launches to the right; a point is memory that nobody uses then."""
    pieces, size = outcome["pieces"], outcome["arena_bytes"]
    if not pieces or not size:
        return ["no block of memory"]
    steps = 1 + max(p[3] for p in pieces)
    width = min(COLUMNS, steps)
    cells = [["." for _ in range(width)] for _ in range(ROWS)]
    for number, (offset, nbytes, first, last, constant, _) in enumerate(pieces):
        letter = "#" if constant else LETTERS[number % len(LETTERS)]
        low, high = offset * ROWS // size, max((offset + nbytes) * ROWS // size, 0)
        for row in range(low, min(max(high, low + (nbytes * ROWS > size)), ROWS)):
            for column in range(first * width // steps, last * width // steps + 1):
                cells[row][column] = letter
    lines = [
        f"{_mib(size * (row + 1) / ROWS):>10} |{''.join(cells[row])}|"
        for row in reversed(range(ROWS))
    ]
    lines.append(f"{'':>10}  launches 0 to {steps - 1}; # constant")
    largest = sorted(enumerate(pieces), key=lambda p: -p[1][1])[:12]
    for number, (_, nbytes, first, last, constant, label) in largest:
        letter = "#" if constant else LETTERS[number % len(LETTERS)]
        lines.append(f"{letter:>12} {_mib(nbytes)}, launches {first} to {last}: {label}")
    return lines


def svg_of(outcome):
    """The same as SVG: a rectangle for each tensor, which says what it is under the pointer."""
    pieces, size = outcome["pieces"], max(outcome["arena_bytes"], 1)
    steps = 1 + max((p[3] for p in pieces), default=0)
    width, height = 1200, 600
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 30}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#f4f4f4"/>',
    ]
    for number, (offset, nbytes, first, last, constant, label) in enumerate(pieces):
        x, w = first * width / steps, (last + 1 - first) * width / steps
        h = nbytes * height / size
        y = height - offset * height / size - h
        colour = "#888888" if constant else f"hsl({number * 47 % 360}, 55%, 60%)"
        said = html.escape(f"{label}: {nbytes} bytes at {offset}, launches {first} to {last}")
        out.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}" fill="{colour}" '
            f'stroke="white" stroke-width="0.3"><title>{said}</title></rect>'
        )
    said = f"{_mib(size)} upwards, launches 0 to {steps - 1} to the right"
    out.append(f'<text x="4" y="{height + 20}">{said}</text></svg>')
    return "\n".join(out) + "\n"
