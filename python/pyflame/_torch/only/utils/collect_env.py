"""torch.utils.collect_env: what a bug report needs."""

import platform as _platform

from .... import _C


def get_pretty_env_info():
    """Versions, the machine and the backends, as text."""
    lines = [
        f"PyFlame version: {_C.__version__} (as torch)",
        f"Python version: {_platform.python_version()} ({_platform.architecture()[0]} runtime)",
        f"OS: {_platform.platform()}",
        f"CPU threads: {_C.get_num_threads()}",
    ]
    lines += [f"Backend {name}: {state}" for name, state in sorted(_C.backend_status().items())]
    return "\n".join(lines)


def main():
    """Prints it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
