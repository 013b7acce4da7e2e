"""Many families of models of transformers, of text, pictures, sound and both: three steps of training by
AdamW each, in float32 and in bfloat16 (autocast). `--device cuda` runs them on a GPU (tools/gpu_models.sh
compares that with PyTorch's on the same card)."""

import torch
import transformers as t
from made_up import integers, normal, train_each

ids = integers(3, 60, 2, 12)
mask = torch.ones_like(ids)
mask[1, 9:] = 0
picture, video, sound = normal(2, 3, 32, 32), normal(2, 4, 3, 32, 32), normal(2, 1600, scale=0.1)
classes, few = torch.tensor([0, 2]), torch.tensor([[3, 4, 5], [6, 7, 8]])
both = dict(input_ids=ids, attention_mask=mask)
labelled = dict(both, labels=ids)
larger = dict(pixel_values=normal(4, 3, 64, 64), labels=torch.tensor([0, 2, 1, 1]))
seen = dict(pixel_values=picture, labels=classes)

none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
size = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
ends = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
text = dict(vocab_size=64, max_position_embeddings=64, **size)
encoder = dict(text, **none)
decoder = dict(text, **ends, num_key_value_heads=2, attention_dropout=0.0)
headed = dict(decoder, head_dim=8)
gpt = dict(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4)
still = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
pair = dict(
    ends,
    vocab_size=64,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    dropout=0.0,
    decoder_start_token_id=1,
)
patches = dict(size, **none, image_size=32, patch_size=8, num_labels=3)
experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
conv = dict(
    conv_dim=(8, 8),
    conv_stride=(5, 4),
    conv_kernel=(10, 8),
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    feat_proj_dropout=0.0,
    final_dropout=0.0,
    activation_dropout=0.0,
    layerdrop=0.0,
    mask_time_prob=0.0,
    apply_spec_augment=False,
)
stages = dict(hidden_sizes=[8, 16], depths=[1, 1], num_labels=3)
windows = dict(embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, num_labels=3)


def plain(model, config, given, **settings):
    """A family of one configuration class."""
    return lambda: (getattr(t, model)(getattr(t, config)(**settings)), given)


def causal(name, **settings):
    return plain(f"{name}ForCausalLM", f"{name}Config", labelled, **settings)


def masked(name, **settings):
    return plain(f"{name}ForMaskedLM", f"{name}Config", labelled, **settings)


def sequences(name, **settings):
    return plain(f"{name}ForConditionalGeneration", f"{name}Config", labelled, **settings)


def pictures(name, given=seen, **settings):
    return plain(f"{name}ForImageClassification", f"{name}Config", given, **settings)


def detr(name, **settings):
    resnet = t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    config = getattr(t, f"{name}Config")(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=resnet,
        num_queries=5,
        num_labels=3,
        **{k: v for k, v in pair.items() if k not in ("vocab_size", *ends)},
        **settings,
    )
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.6, 0.2, 0.3]])
    target = [dict(class_labels=torch.tensor([0, 2]), boxes=boxes) for _ in range(2)]
    return getattr(t, f"{name}ForObjectDetection")(config), dict(
        pixel_values=picture, labels=target
    )


def llava():
    config = t.LlavaConfig(
        vision_config=t.CLIPVisionConfig(**size, image_size=32, patch_size=16),
        text_config=t.LlamaConfig(**decoder),
        image_token_index=63,
        image_token_id=63,
        vision_feature_layer=-1,
    )
    with_picture = ids.clone()
    with_picture[:, 1:5] = 63
    return t.LlavaForConditionalGeneration(config), dict(
        labelled, input_ids=with_picture, pixel_values=picture
    )


def sam():
    config = t.SamConfig(
        vision_config=dict(
            hidden_size=32,
            output_channels=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            window_size=2,
            global_attn_indexes=[1],
            num_pos_feats=8,
            mlp_dim=48,
        ),
        prompt_encoder_config=dict(
            hidden_size=16,
            image_size=32,
            patch_size=8,
            image_embedding_size=4,
            mask_input_channels=4,
        ),
        mask_decoder_config=dict(
            hidden_size=16, mlp_dim=24, num_attention_heads=2, iou_head_hidden_dim=16
        ),
    )
    points = torch.tensor([[[[4.0, 7.0]]], [[[20.0, 9.0]]]])
    return t.SamModel(config), dict(pixel_values=picture, input_points=points)


def series():
    config = t.TimeSeriesTransformerConfig(
        prediction_length=4,
        context_length=8,
        lags_sequence=[1, 2],
        num_time_features=1,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )
    given = dict(
        past_values=normal(2, 10),
        past_time_features=normal(2, 10, 1),
        past_observed_mask=torch.ones(2, 10),
        future_values=normal(2, 4),
        future_time_features=normal(2, 4, 1),
    )
    return t.TimeSeriesTransformerForPrediction(config), given


families = {
    "bert": masked("Bert", **encoder),
    "roberta": masked("Roberta", **encoder),
    "xlm_roberta": masked("XLMRoberta", **encoder),
    "camembert": masked("Camembert", **encoder),
    "albert": masked("Albert", **encoder, embedding_size=16, classifier_dropout_prob=0.0),
    "electra": masked("Electra", **encoder, embedding_size=16),
    "roberta classes": plain(
        "RobertaForSequenceClassification",
        "RobertaConfig",
        dict(both, labels=classes % 2),
        **encoder,
    ),
    "albert tokens": plain(
        "AlbertForTokenClassification",
        "AlbertConfig",
        dict(both, labels=ids % 2),
        **encoder,
        embedding_size=16,
        classifier_dropout_prob=0.0,
    ),
    "electra answers": plain(
        "ElectraForQuestionAnswering",
        "ElectraConfig",
        dict(both, start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([3, 4])),
        **encoder,
        embedding_size=16,
    ),
    "distilbert": masked(
        "DistilBert",
        vocab_size=64,
        dim=32,
        hidden_dim=48,
        n_layers=2,
        n_heads=4,
        dropout=0.0,
        attention_dropout=0.0,
    ),
    "deberta_v2": masked(
        "DebertaV2",
        **encoder,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
    ),
    "mpnet": masked("MPNet", **encoder),
    "mobilebert": masked("MobileBert", **encoder, embedding_size=16, intra_bottleneck_size=16),
    "modernbert": masked(
        "ModernBert", **text, **ends, cls_token_id=1, sep_token_id=2, local_attention=4
    ),
    "longformer": masked("Longformer", **encoder, attention_window=[4, 4]),
    "big_bird": masked(
        "BigBird", **encoder, block_size=2, num_random_blocks=1, attention_type="original_full"
    ),
    "roformer": masked("RoFormer", **encoder, embedding_size=32),
    "fnet": plain(
        "FNetForMaskedLM",
        "FNetConfig",
        dict(input_ids=ids, labels=ids),
        **text,
        hidden_dropout_prob=0.0,
    ),
    "squeezebert": masked(
        "SqueezeBert", **encoder, embedding_size=32, q_groups=2, k_groups=2, v_groups=2
    ),
    "convbert": masked("ConvBert", **encoder, embedding_size=32, conv_kernel_size=3),
    "layoutlm": masked("LayoutLM", **encoder),
    "esm": masked(
        "Esm", **encoder, pad_token_id=0, mask_token_id=4, position_embedding_type="rotary"
    ),
    "xlnet": plain(
        "XLNetLMHeadModel",
        "XLNetConfig",
        labelled,
        vocab_size=64,
        d_model=32,
        n_layer=2,
        n_head=4,
        d_inner=48,
        dropout=0.0,
    ),
    "gpt2": plain("GPT2LMHeadModel", "GPT2Config", labelled, **gpt, **still),
    "gptj": causal("GPTJ", **gpt, **still, rotary_dim=4),
    "gpt_neo": causal(
        "GPTNeo",
        vocab_size=64,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        max_position_embeddings=64,
        resid_dropout=0.0,
        embed_dropout=0.0,
        attention_dropout=0.0,
    ),
    "gpt_neox": causal("GPTNeoX", **text, hidden_dropout=0.0, attention_dropout=0.0),
    "gpt_bigcode": causal("GPTBigCode", **gpt, **still),
    "codegen": causal("CodeGen", **gpt, **still, rotary_dim=4),
    "opt": causal(
        "OPT",
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=48,
        word_embed_proj_dim=32,
        max_position_embeddings=64,
        dropout=0.0,
        **ends,
    ),
    "bloom": causal(
        "Bloom", vocab_size=64, hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0.0
    ),
    "mpt": causal(
        "Mpt", vocab_size=64, d_model=32, n_layers=2, n_heads=4, max_seq_len=64, expansion_ratio=2
    ),
    "falcon": causal(
        "Falcon",
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        alibi=False,
    ),
    "llama": causal("Llama", **decoder),
    "mistral": causal("Mistral", **decoder, sliding_window=4),
    "mixtral": causal("Mixtral", **decoder, num_local_experts=4, output_router_logits=True),
    "qwen2": causal("Qwen2", **decoder),
    "qwen2_moe": causal("Qwen2Moe", **decoder, **experts, shared_expert_intermediate_size=16),
    "qwen3": causal("Qwen3", **headed),
    "qwen3_moe": causal("Qwen3Moe", **headed, **experts, output_router_logits=True),
    "gemma": causal("Gemma", **headed),
    "gemma2": causal("Gemma2", **headed, sliding_window=4),
    "gemma3": plain("Gemma3ForCausalLM", "Gemma3TextConfig", labelled, **headed, sliding_window=4),
    "phi": causal("Phi", **decoder, resid_pdrop=0.0),
    "phi3": causal("Phi3", **decoder),
    "stablelm": causal("StableLm", **decoder),
    "olmo": causal("Olmo", **decoder),
    "olmo2": causal("Olmo2", **decoder),
    "olmoe": causal("Olmoe", **decoder, num_experts=4, num_experts_per_tok=2),
    "starcoder2": causal("Starcoder2", **decoder, embedding_dropout=0.0, residual_dropout=0.0),
    "cohere": causal("Cohere", **decoder),
    "granite": causal("Granite", **decoder),
    "persimmon": causal("Persimmon", **text, **ends, attention_dropout=0.0, hidden_dropout=0.0),
    "deepseek_v3": causal(
        "DeepseekV3",
        **dict(decoder, num_key_value_heads=4),
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        n_group=2,
        topk_group=1,
    ),
    "mamba": plain(
        "MambaForCausalLM",
        "MambaConfig",
        dict(input_ids=ids, labels=ids),
        vocab_size=64,
        hidden_size=32,
        state_size=4,
        num_hidden_layers=2,
        time_step_rank=4,
    ),
    "mamba2": plain(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        dict(input_ids=ids, labels=ids),
        vocab_size=64,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        num_heads=8,
        head_dim=8,
        n_groups=2,
        chunk_size=4,
        **ends,
    ),
    "rwkv": plain(
        "RwkvForCausalLM",
        "RwkvConfig",
        dict(input_ids=ids, labels=ids),
        vocab_size=64,
        hidden_size=32,
        attention_hidden_size=32,
        num_hidden_layers=2,
        context_length=64,
        **ends,
    ),
    "t5": sequences(
        "T5",
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    ),
    "mt5": sequences(
        "MT5",
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    ),
    "switch_transformers": sequences(
        "SwitchTransformers",
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        num_experts=4,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        dropout_rate=0.0,
        router_jitter_noise=0.0,
        decoder_start_token_id=0,
    ),
    "bart": sequences("Bart", **pair, max_position_embeddings=64),
    "mbart": sequences("MBart", **pair, max_position_embeddings=64),
    "pegasus": sequences("Pegasus", **pair, max_position_embeddings=64),
    "led": sequences(
        "LED",
        **pair,
        attention_window=4,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
    ),
    "m2m_100": sequences(
        "M2M100",
        **pair,
        max_position_embeddings=64,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        attention_dropout=0.0,
    ),
    "marian": plain("MarianMTModel", "MarianConfig", labelled, **pair, max_position_embeddings=64),
    "blenderbot": sequences("Blenderbot", **pair, max_position_embeddings=64),
    "vit": pictures("ViT", **patches),
    "deit": pictures("DeiT", **patches),
    "beit": pictures("Beit", **patches, drop_path_rate=0.0, use_relative_position_bias=True),
    "dinov2": pictures("Dinov2", **patches, mlp_ratio=2),
    "swin": pictures("Swin", image_size=32, patch_size=2, **windows, drop_path_rate=0.0),
    "swinv2": pictures("Swinv2", image_size=32, patch_size=2, **windows, drop_path_rate=0.0),
    "convnext": pictures("ConvNext", **stages, num_stages=2),
    "convnextv2": pictures("ConvNextV2", **stages, num_stages=2),
    "resnet": pictures("ResNet", **stages, embedding_size=8),
    "regnet": pictures("RegNet", **stages, embedding_size=8, groups_width=4),
    "efficientnet": pictures(
        "EfficientNet",
        larger,
        width_coefficient=0.25,
        depth_coefficient=0.25,
        hidden_dim=320,
        dropout_rate=0.0,
        drop_connect_rate=0.0,
        num_labels=3,
    ),
    "mobilenet_v2": pictures(
        "MobileNetV2", larger, depth_multiplier=0.25, num_labels=3, classifier_dropout_prob=0.0
    ),
    "mobilevit": pictures(
        "MobileViT",
        larger,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[4, 8, 8, 16, 16, 16, 32],
        num_attention_heads=4,
        image_size=64,
        num_labels=3,
        **none,
        classifier_dropout_prob=0.0,
    ),
    "poolformer": pictures(
        "PoolFormer",
        depths=[1, 1],
        hidden_sizes=[8, 16],
        num_encoder_blocks=2,
        patch_sizes=[7, 3],
        strides=[4, 2],
        padding=[2, 1],
        num_labels=3,
        drop_path_rate=0.0,
    ),
    "segformer": plain(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        dict(pixel_values=picture, labels=integers(0, 3, 2, 32, 32)),
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
        **none,
    ),
    "dpt": plain(
        "DPTForDepthEstimation",
        "DPTConfig",
        dict(pixel_values=picture),
        **dict(patches, num_hidden_layers=4),
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        is_hybrid=False,
    ),
    "videomae": plain(
        "VideoMAEForVideoClassification",
        "VideoMAEConfig",
        dict(pixel_values=video, labels=classes),
        **patches,
        num_frames=4,
    ),
    "vivit": plain(
        "VivitForVideoClassification",
        "VivitConfig",
        dict(pixel_values=video, labels=classes),
        **patches,
        num_frames=4,
        tubelet_size=[2, 8, 8],
    ),
    "timesformer": plain(
        "TimesformerForVideoClassification",
        "TimesformerConfig",
        dict(pixel_values=video, labels=classes),
        **patches,
        num_frames=4,
    ),
    "detr": lambda: detr("Detr"),
    "conditional_detr": lambda: detr("ConditionalDetr"),
    "yolos": plain(
        "YolosForObjectDetection",
        "YolosConfig",
        dict(
            pixel_values=picture,
            labels=[
                dict(
                    class_labels=classes,
                    boxes=torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.6, 0.2, 0.3]]),
                )
            ]
            * 2,
        ),
        **dict(patches, image_size=[32, 32]),
        num_detection_tokens=4,
    ),
    "sam": sam,
    "clip": plain(
        "CLIPModel",
        "CLIPConfig",
        dict(both, pixel_values=picture, return_loss=True),
        text_config=dict(text, eos_token_id=2),
        vision_config=dict(size, image_size=32, patch_size=8),
        projection_dim=16,
    ),
    "siglip": plain(
        "SiglipModel",
        "SiglipConfig",
        dict(both, pixel_values=picture, return_loss=True),
        text_config=dict(text, projection_size=32),
        vision_config=dict(size, image_size=32, patch_size=8),
    ),
    "clipseg": plain(
        "CLIPSegForImageSegmentation",
        "CLIPSegConfig",
        dict(
            both,
            pixel_values=picture,
            labels=integers(0, 2, 2, 32, 32).float(),
        ),
        text_config=dict(text, eos_token_id=2),
        vision_config=dict(size, image_size=32, patch_size=8),
        projection_dim=32,
        extract_layers=[0, 1],
        reduce_dim=8,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
    ),
    "blip": plain(
        "BlipForConditionalGeneration",
        "BlipConfig",
        dict(labelled, pixel_values=picture),
        projection_dim=16,
        text_config=dict(encoder, encoder_hidden_size=32, **ends, sep_token_id=2),
        vision_config=dict(size, image_size=32, patch_size=8),
    ),
    "vilt": plain(
        "ViltForQuestionAnswering",
        "ViltConfig",
        dict(both, pixel_values=picture, labels=torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])),
        **dict(encoder, **patches),
    ),
    "llava": llava,
    "wav2vec2": plain(
        "Wav2Vec2ForCTC",
        "Wav2Vec2Config",
        dict(input_values=sound, labels=few),
        vocab_size=20,
        **size,
        **conv,
    ),
    "hubert": plain(
        "HubertForCTC",
        "HubertConfig",
        dict(input_values=sound, labels=few),
        vocab_size=20,
        **size,
        **conv,
    ),
    "wavlm": plain(
        "WavLMForCTC",
        "WavLMConfig",
        dict(input_values=sound, labels=few),
        vocab_size=20,
        **size,
        **conv,
    ),
    "whisper": plain(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        dict(input_features=normal(2, 8, 40), labels=ids),
        **pair,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=20,
    ),
    "ast": plain(
        "ASTForAudioClassification",
        "ASTConfig",
        dict(input_values=normal(2, 32, 16), labels=classes),
        **size,
        **none,
        patch_size=8,
        max_length=32,
        num_mel_bins=16,
        frequency_stride=8,
        time_stride=8,
        num_labels=3,
    ),
    "speech_to_text": plain(
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        dict(input_features=normal(2, 40, 8), labels=ids),
        **pair,
        input_feat_per_channel=8,
        input_channels=1,
        conv_channels=16,
        max_source_positions=64,
        max_target_positions=64,
    ),
    "encodec": plain(
        "EncodecModel",
        "EncodecConfig",
        dict(input_values=sound[:, None]),
        num_filters=4,
        hidden_size=16,
        upsampling_ratios=[4, 2],
        codebook_size=16,
        codebook_dim=16,
        num_lstm_layers=1,
        target_bandwidths=[24.0],
    ),
    "time_series": series,
    "patchtst": plain(
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        dict(past_values=normal(2, 16, 2), future_values=normal(2, 4, 2)),
        num_input_channels=2,
        context_length=16,
        patch_length=4,
        patch_stride=4,
        prediction_length=4,
        d_model=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        ffn_dim=16,
    ),
    "decision_transformer": plain(
        "DecisionTransformerModel",
        "DecisionTransformerConfig",
        dict(
            states=normal(2, 5, 3),
            actions=normal(2, 5, 2),
            rewards=normal(2, 5, 1),
            returns_to_go=normal(2, 5, 1),
            timesteps=torch.arange(5).repeat(2, 1),
            attention_mask=torch.ones(2, 5),
        ),
        state_dim=3,
        act_dim=2,
        hidden_size=32,
        max_ep_len=10,
        n_head=2,
        n_layer=2,
        n_inner=48,
        vocab_size=1,
        **still,
    ),
}

if __name__ == "__main__":
    train_each(families)
