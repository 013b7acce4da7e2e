"""torch.quasirandom: Sobol's sequences, by SciPy's directions."""

from ... import _C


class SobolEngine:
    """Points of Sobol's sequence in the unit cube of `dimension` dimensions (Joe and Kuo's directions, as
    PyTorch has them). scramble: Owen's scrambling by `seed`, with other numbers than PyTorch's.

    ImportError without SciPy.
    """

    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= self.MAXDIM:
            raise _C.ValueError(
                f"torch.quasirandom.SobolEngine: got dimension {dimension}; expected 1 to {self.MAXDIM}"
            )
        from scipy.stats import qmc

        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._sobol = qmc.Sobol(dimension, scramble=scramble, rng=seed)

    def draw(self, n=1, out=None, dtype=None):
        """The next `n` points, [n, dimension]."""
        import warnings

        with warnings.catch_warnings():  # that n is no power of two is the program's choice
            warnings.filterwarnings("ignore", message="The balance properties")
            made = _C.from_numpy(self._sobol.random(n))
        self.num_generated += n
        made = made.to(_C.get_default_dtype() if dtype is None else dtype)
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2**m points. ValueError where they and those before are no power of two together."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise _C.ValueError(
                f"torch.quasirandom.SobolEngine.draw_base2: got 2**{m} points behind "
                f"{self.num_generated}; expected a power of two in all; use draw({n})"
            )
        return self.draw(n, out, dtype)

    def reset(self):
        """Begins again."""
        self._sobol.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Passes over `n` points."""
        self._sobol.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self):
        more = ["scramble=True"] * self.scramble
        more += [f"seed={self.seed}"] * (self.seed is not None)
        return f"SobolEngine({', '.join([f'dimension={self.dimension}', *more])})"
