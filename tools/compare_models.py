"""What tools/gpu_models.sh found: for each model, whether it ran here and with PyTorch, and how far the losses
and norms of gradients of its three steps are apart, and the times of a step. Usage: compare_models.py RESULTS"""

import json
import sys
from pathlib import Path

# Of losses and norms, relative: float32, and what is calculated in bfloat16.
FLOAT, SHORT = 1e-4, 3e-2


def read(folder, side):
    losses, errors, times = {}, {}, {}
    for path in sorted(folder.glob(f"*{side}.*.jsonl")):
        for line in path.read_text().splitlines():
            said = json.loads(line) if line.startswith(("[", "{")) else None
            if isinstance(said, list):
                losses.setdefault(said[0], said[1][0][4])
            elif said and "error" in said:
                errors[said["name"]] = said["error"]
            elif said:
                times[said["name"]] = said["ms"]
    return losses, errors, times


def main(folder):
    ours, our_errors, our_times = read(folder, "ours")
    theirs, their_errors, their_times = read(folder, "theirs")
    near, all_of = 0, sorted(ours.keys() & theirs.keys())
    for name in all_of:
        apart = [abs(a - b) / (abs(b) + 1e-6) for a, b in zip(ours[name], theirs[name])]
        if max(apart) <= (SHORT if name.endswith("bf16") else FLOAT):
            near += 1
        else:
            print(f"{name}: apart by {apart[0]:.1e} in the first loss, {max(apart):.1e} in all")
    for name, error in sorted(our_errors.items()):
        print(f"{name}: {'both raise' if name in their_errors else 'raises here'}: {error[:160]}")
    for name in sorted(their_errors.keys() - our_errors.keys()):
        print(f"{name}: raises with PyTorch: {their_errors[name][:160]}")
    print(f"{near} of {len(all_of)} alike; here {len(ours)}, with PyTorch {len(theirs)}")
    for name in sorted(our_times.keys() & their_times.keys()):
        print(f"{name}: {our_times[name]:.2f} ms a step, PyTorch {their_times[name]:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
