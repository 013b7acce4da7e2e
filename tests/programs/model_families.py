"""transformers: two steps of training of small models of many kinds, of text, pictures, sound and both; some of
those of many_models.py, which has their configurations."""

from made_up import Training, report
from many_models import families

CHOSEN = """bert, roberta classes, albert tokens, electra answers, deberta_v2, distilbert, bart, gpt_neox, llama, qwen3,
gemma2, phi3, mixtral, mamba, vit, convnext, segformer, clip, wav2vec2, whisper"""

for name in CHOSEN.replace("\n", " ").split(", "):
    report(name, Training(families[name]).steps(2))
