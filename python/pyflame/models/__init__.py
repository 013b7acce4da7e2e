"""Models that come with PyFlame."""

from .gpt import GPT, GPTConfig

__all__ = ["GPT", "GPTConfig"]
