"""transformers: a step of training of small models of many kinds, of text, pictures, sound and both."""

import numpy as np
import torch
import transformers as t
from made_up import fill, report

rng = np.random.RandomState(0)
ids = torch.tensor(rng.randint(3, 60, (2, 10)))
mask = torch.ones_like(ids)
mask[1, 7:] = 0
picture = torch.tensor(rng.randn(2, 3, 32, 32).astype(np.float32))
sound = torch.tensor((rng.randn(2, 1600) * 0.1).astype(np.float32))
none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
size = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
text = dict(vocab_size=64, max_position_embeddings=64, **size)
decoder = dict(
    text,
    num_key_value_heads=2,
    attention_dropout=0.0,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
encoder_decoder = dict(
    vocab_size=64,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    dropout=0.0,
)
both = dict(input_ids=ids, attention_mask=mask)
conv = dict(
    conv_dim=(8, 8),
    conv_stride=(5, 4),
    conv_kernel=(10, 8),
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
)

runs = {
    "bert": lambda: (t.BertForMaskedLM(t.BertConfig(**text, **none)), dict(both, labels=ids)),
    "roberta": lambda: (
        t.RobertaForSequenceClassification(t.RobertaConfig(**text, **none)),
        dict(both, labels=torch.tensor([0, 1])),
    ),
    "albert": lambda: (
        t.AlbertForTokenClassification(
            t.AlbertConfig(embedding_size=16, classifier_dropout_prob=0.0, **text, **none)
        ),
        dict(both, labels=ids % 2),
    ),
    "electra": lambda: (
        t.ElectraForQuestionAnswering(t.ElectraConfig(embedding_size=16, **text, **none)),
        dict(both, start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([3, 4])),
    ),
    "deberta": lambda: (
        t.DebertaV2ForMaskedLM(
            t.DebertaV2Config(
                **text,
                **none,
                relative_attention=True,
                pos_att_type=["p2c", "c2p"],
                position_buckets=8,
            )
        ),
        dict(both, labels=ids),
    ),
    "distilbert": lambda: (
        t.DistilBertForMaskedLM(
            t.DistilBertConfig(
                vocab_size=64,
                dim=32,
                hidden_dim=48,
                n_layers=2,
                n_heads=4,
                dropout=0.0,
                attention_dropout=0.0,
                max_position_embeddings=64,
            )
        ),
        dict(both, labels=ids),
    ),
    "bart": lambda: (
        t.BartForConditionalGeneration(t.BartConfig(**encoder_decoder, max_position_embeddings=64)),
        dict(both, labels=ids),
    ),
    "gpt_neox": lambda: (
        t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**text, hidden_dropout=0.0, attention_dropout=0.0)),
        dict(both, labels=ids),
    ),
    "llama": lambda: (t.LlamaForCausalLM(t.LlamaConfig(**decoder)), dict(both, labels=ids)),
    "qwen3": lambda: (
        t.Qwen3ForCausalLM(t.Qwen3Config(**decoder, head_dim=8)),
        dict(both, labels=ids),
    ),
    "gemma2": lambda: (
        t.Gemma2ForCausalLM(t.Gemma2Config(**decoder, head_dim=8)),
        dict(both, labels=ids),
    ),
    "phi3": lambda: (t.Phi3ForCausalLM(t.Phi3Config(**decoder)), dict(both, labels=ids)),
    "mixtral": lambda: (
        t.MixtralForCausalLM(t.MixtralConfig(**decoder, num_local_experts=4)),
        dict(both, labels=ids),
    ),
    "mamba": lambda: (
        t.MambaForCausalLM(
            t.MambaConfig(
                vocab_size=64, hidden_size=32, state_size=4, num_hidden_layers=2, time_step_rank=4
            )
        ),
        dict(input_ids=ids, labels=ids),
    ),
    "vit": lambda: (
        t.ViTForImageClassification(
            t.ViTConfig(image_size=32, patch_size=8, num_labels=3, **size, **none)
        ),
        dict(pixel_values=picture, labels=torch.tensor([0, 2])),
    ),
    "convnext": lambda: (
        t.ConvNextForImageClassification(
            t.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=3)
        ),
        dict(pixel_values=picture, labels=torch.tensor([0, 2])),
    ),
    "segformer": lambda: (
        t.SegformerForSemanticSegmentation(
            t.SegformerConfig(
                num_encoder_blocks=2,
                depths=[1, 1],
                sr_ratios=[2, 1],
                hidden_sizes=[8, 16],
                patch_sizes=[3, 3],
                strides=[2, 2],
                num_attention_heads=[1, 2],
                mlp_ratios=[2, 2],
                decoder_hidden_size=16,
                num_labels=3,
                drop_path_rate=0.0,
                classifier_dropout_prob=0.0,
            )
        ),
        dict(pixel_values=picture, labels=torch.tensor(rng.randint(0, 3, (2, 32, 32)))),
    ),
    "clip": lambda: (
        t.CLIPModel(
            t.CLIPConfig(
                text_config=dict(text, eos_token_id=2),
                vision_config=dict(size, image_size=32, patch_size=8),
                projection_dim=16,
            )
        ),
        dict(both, pixel_values=picture, return_loss=True),
    ),
    "wav2vec2": lambda: (
        t.Wav2Vec2ForCTC(
            t.Wav2Vec2Config(
                vocab_size=20,
                **size,
                **conv,
                hidden_dropout=0.0,
                attention_dropout=0.0,
                feat_proj_dropout=0.0,
                final_dropout=0.0,
                activation_dropout=0.0,
                layerdrop=0.0,
                mask_time_prob=0.0,
                apply_spec_augment=False,
            )
        ),
        dict(input_values=sound, labels=torch.tensor([[3, 4, 5], [6, 7, 8]])),
    ),
    "whisper": lambda: (
        t.WhisperForConditionalGeneration(
            t.WhisperConfig(
                **encoder_decoder,
                num_mel_bins=8,
                max_source_positions=20,
                max_target_positions=20,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
            )
        ),
        dict(input_features=torch.tensor(rng.randn(2, 8, 40).astype(np.float32)), labels=ids),
    ),
}
for name, make in runs.items():
    model, given = make()
    fill(model, scale=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = model(**given).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses += [loss.detach(), norm]
    report(name, torch.stack(losses))
