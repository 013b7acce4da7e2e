"""Models of timm, torchvision, torchaudio, torch-geometric, diffusers and peft: three steps of training by
AdamW each, in float32 and in bfloat16, as many_models.py does for transformers. What is not installed is
left out."""

import importlib

import torch
from made_up import integers, normal, train_each
from torch import nn


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


picture, larger = normal(4, 3, 32, 32), normal(4, 3, 64, 64)
families = {}
still = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class Still(nn.Module):
    """A model without chance: no dropout, no paths or samples that are drawn."""

    def __init__(self, model, **settings):
        super().__init__()
        for m in model.modules():
            if isinstance(m, still) or type(m).__name__ in ("DropPath", "StochasticDepth"):
                m.p = m.drop_prob = 0.0
            if type(m).__name__ == "LabelEmbedding":
                m.dropout_prob = 0.0
        self.model, self.settings = model, settings

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs, **self.settings)


timm = module("timm")
if timm:
    families |= {
        f"timm {name}": lambda name=name, settings=settings: (
            Still(timm.create_model(name, pretrained=False, num_classes=3, **settings)),
            (picture if "img_size" in settings else larger,),
        )
        for name, settings in {
            "resnet10t": {},
            "seresnet18" if "seresnet18" in timm.list_models() else "seresnet33ts": {},
            "convnext_atto": {},
            "efficientnet_b0": {},
            "mobilenetv3_small_050": {},
            "vit_tiny_patch16_224": dict(img_size=32),
            "swin_tiny_patch4_window7_224": dict(
                img_size=32, window_size=4, depths=(1, 1), embed_dim=24, num_heads=(2, 4)
            ),
            "mixer_s32_224": dict(img_size=32),
            "regnetx_002": {},
            "repvgg_a0": {},
            "densenet121": dict(growth_rate=4, block_config=(1, 1, 1, 1)),
            "eva02_tiny_patch14_224": dict(img_size=32, patch_size=16, depth=2),
            "coatnet_0_224": dict(
                img_size=32, depths=(1, 1, 1, 1), embed_dim=(32, 32, 32, 32), stem_width=16
            ),
            "ghostnet_050": dict(drop_rate=0.0),
        }.items()
    }

tv = module("torchvision.models")
if tv:
    boxes = torch.tensor([[4.0, 6.0, 40.0, 30.0], [20.0, 10.0, 60.0, 62.0]])
    targets = [
        dict(
            boxes=boxes,
            labels=torch.tensor([1, 2]),
            masks=integers(0, 2, 2, 64, 64).to(torch.uint8),
        )
        for _ in range(2)
    ]
    small = dict(num_classes=3, weights=None)

    def detector(name):
        sizes = {}
        if "ssd" not in name:
            sizes = dict(min_size=64, max_size=64, trainable_backbone_layers=5)
        if "rcnn" in name:  # All proposals and no drawing among them.
            sizes |= dict(rpn_batch_size_per_image=10**6, box_batch_size_per_image=10**6)
        model = getattr(tv.detection, name)(weights_backbone=None, **small, **sizes)
        return Still(model), (list(larger[:2]), targets)

    families |= {
        f"torchvision {name}": lambda name=name: (Still(getattr(tv, name)(**small)), (larger,))
        for name in (
            "resnet18",
            "resnext50_32x4d",
            "vgg11_bn",
            "squeezenet1_0",
            "shufflenet_v2_x0_5",
            "mobilenet_v3_small",
            "mnasnet0_5",
            "regnet_y_400mf",
            "swin_t",
            "convnext_tiny",
        )
    }
    families |= {
        f"torchvision {name}": lambda name=name: detector(name)
        for name in (
            "fasterrcnn_resnet50_fpn",
            "maskrcnn_resnet50_fpn",
            "retinanet_resnet50_fpn",
            "ssdlite320_mobilenet_v3_large",
        )
    }
    families |= {
        f"torchvision {name}": lambda name=name: (
            Still(getattr(tv.segmentation, name)(weights_backbone=None, aux_loss=True, **small)),
            (larger,),
        )
        for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50")
    }
    families |= {
        "torchvision vit": lambda: (
            Still(
                tv.VisionTransformer(
                    image_size=64,
                    patch_size=16,
                    num_layers=2,
                    num_heads=4,
                    hidden_dim=32,
                    mlp_dim=48,
                    num_classes=3,
                )
            ),
            (larger,),
        ),
        "torchvision raft_small": lambda: (
            Still(tv.optical_flow.raft_small(weights=None), num_flow_updates=2),
            (normal(1, 3, 128, 128), normal(1, 3, 128, 128, seed=1)),
        ),
        "torchvision r3d_18": lambda: (Still(tv.video.r3d_18(**small)), (normal(2, 3, 4, 32, 32),)),
        "torchvision swin3d": lambda: (
            Still(
                tv.video.SwinTransformer3d(
                    patch_size=[2, 4, 4],
                    embed_dim=24,
                    depths=[1, 1],
                    num_heads=[2, 4],
                    window_size=[2, 4, 4],
                    num_classes=3,
                )
            ),
            (normal(2, 3, 4, 32, 32),),
        ),
        "torchvision deform_conv": lambda: (Deformable(), (normal(2, 3, 16, 16),)),
    }

    class Deformable(nn.Module):
        def __init__(self):
            super().__init__()
            self.offset = nn.Conv2d(3, 18, 3, padding=1)
            self.conv = importlib.import_module("torchvision.ops").DeformConv2d(3, 8, 3, padding=1)

        def forward(self, x):
            return self.conv(x, self.offset(x))


ta = module("torchaudio.models")
if ta:
    lengths = torch.tensor([20, 15])
    families |= {
        "torchaudio conformer": lambda: (
            Still(
                ta.Conformer(
                    input_dim=16,
                    num_heads=2,
                    ffn_dim=32,
                    num_layers=2,
                    depthwise_conv_kernel_size=5,
                )
            ),
            (normal(2, 20, 16), lengths),
        ),
        "torchaudio emformer": lambda: (
            Still(ta.Emformer(16, 2, 32, 2, segment_length=4, right_context_length=1)),
            (normal(2, 21, 16), torch.tensor([20, 16])),
        ),
        "torchaudio hubert": lambda: (
            Still(
                ta.wav2vec2.model.wav2vec2_model(
                    "group_norm",
                    [(8, 10, 5), (8, 8, 4)],
                    False,
                    32,
                    0.0,
                    16,
                    2,
                    2,
                    4,
                    0.0,
                    48,
                    0.0,
                    0.0,
                    False,
                    0.0,
                    5,
                )
            ),
            (normal(2, 1600),),
        ),
        "torchaudio deepspeech": lambda: (
            Still(ta.DeepSpeech(n_feature=8, n_hidden=16, n_class=5, dropout=0.0)),
            (normal(2, 1, 12, 8),),
        ),
        "torchaudio wav2letter": lambda: (
            Still(ta.Wav2Letter(num_classes=5, input_type="mfcc", num_features=8)),
            (normal(2, 8, 100),),
        ),
        "torchaudio wavernn": lambda: (
            Still(
                ta.WaveRNN(
                    [2, 2, 2],
                    n_classes=8,
                    hop_length=8,
                    n_res_block=1,
                    n_rnn=16,
                    n_fc=16,
                    n_hidden=16,
                    n_freq=8,
                    n_output=16,
                )
            ),
            (normal(2, 1, 16), normal(2, 1, 8, 6)),
        ),
        "torchaudio conv_tasnet": lambda: (
            Still(ta.ConvTasNet(2, 8, 16, 3, 8, 16, 2, 1)),
            (normal(2, 1, 400),),
        ),
        "torchaudio hdemucs": lambda: (
            Still(ta.HDemucs(["a", "b"], audio_channels=1, channels=4, depth=4, nfft=1024)),
            (normal(1, 1, 8192),),
        ),
    }

pyg = module("torch_geometric.nn")
if pyg:
    edges = integers(0, 12, 2, 40)
    nodes = (normal(12, 8), edges)
    degrees = torch.bincount(torch.bincount(edges[1], minlength=12))
    which = torch.tensor([0] * 5 + [1] * 7)

    class Graph(nn.Module):
        def __init__(self, make):
            super().__init__()
            self.first, self.last = make(8, 16), make(16, 3)
            self.register_buffer("which", which.clone())

        def forward(self, x, edges):
            return pyg.global_mean_pool(self.last(self.first(x, edges).relu(), edges), self.which)

    def net(a, b):
        return nn.Sequential(nn.Linear(a, 16), nn.ReLU(), nn.Linear(16, b))

    families |= {
        f"pyg {name}": lambda make=make: (Graph(make), nodes)
        for name, make in {
            "gcn": lambda a, b: pyg.GCNConv(a, b),
            "sage": lambda a, b: pyg.SAGEConv(a, b),
            "sage_max": lambda a, b: pyg.SAGEConv(a, b, aggr="max"),
            "gat": lambda a, b: pyg.GATConv(a, b, heads=2, concat=False),
            "gatv2": lambda a, b: pyg.GATv2Conv(a, b, heads=2, concat=False),
            "gin": lambda a, b: pyg.GINConv(net(a, b)),
            "pna": lambda a, b: pyg.PNAConv(
                a, b, ["mean", "min", "max", "std"], ["identity", "amplification"], degrees
            ),
            "transformer": lambda a, b: pyg.TransformerConv(a, b, heads=2, concat=False),
            "cheb": lambda a, b: pyg.ChebConv(a, b, K=3),
            "edge": lambda a, b: pyg.EdgeConv(net(2 * a, b)),
            "tag": lambda a, b: pyg.TAGConv(a, b),
            "arma": lambda a, b: pyg.ARMAConv(a, b),
            "gated": lambda a, b: pyg.ResGatedGraphConv(a, b),
            "general": lambda a, b: pyg.GENConv(a, b),
        }.items()
    }
    families["pyg schnet"] = lambda: (
        pyg.SchNet(
            hidden_channels=16,
            num_filters=16,
            num_interactions=2,
            num_gaussians=8,
            interaction_graph=Neighbours(),
        ),
        (integers(1, 9, 6), normal(6, 3)),
    )

    class Neighbours(nn.Module):
        def forward(self, pos, batch):
            row, col = (1 - torch.eye(len(pos), device=pos.device)).nonzero().T
            return torch.stack([row, col]), (pos[row] - pos[col]).norm(dim=-1)


diffusers = module("diffusers")
if diffusers:
    unet = dict(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    steps = torch.tensor([3, 50])
    families |= {
        "diffusers unet": lambda: (diffusers.UNet2DModel(**unet), (normal(2, 3, 8, 8), steps)),
        "diffusers unet_condition": lambda: (
            diffusers.UNet2DConditionModel(
                sample_size=8,
                block_out_channels=(8, 16),
                layers_per_block=1,
                norm_num_groups=4,
                attention_head_dim=4,
                cross_attention_dim=16,
                down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            ),
            (normal(2, 4, 8, 8), steps, normal(2, 5, 16)),
        ),
        "diffusers vae": lambda: (
            diffusers.AutoencoderKL(
                block_out_channels=(8, 16),
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
                norm_num_groups=4,
            ),
            (normal(2, 3, 16, 16),),
        ),
        "diffusers vq": lambda: (
            diffusers.VQModel(
                block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=16, latent_channels=3
            ),
            (normal(2, 3, 16, 16),),
        ),
        "diffusers dit": lambda: (
            Still(
                diffusers.DiTTransformer2DModel(
                    num_attention_heads=2,
                    attention_head_dim=8,
                    in_channels=4,
                    num_layers=2,
                    sample_size=8,
                    norm_num_groups=4,
                    num_embeds_ada_norm=10,
                )
            ),
            dict(
                hidden_states=normal(2, 4, 8, 8), timestep=steps, class_labels=torch.tensor([1, 2])
            ),
        ),
        "diffusers sd3": lambda: (
            diffusers.SD3Transformer2DModel(
                sample_size=8,
                patch_size=2,
                in_channels=4,
                num_layers=2,
                attention_head_dim=8,
                num_attention_heads=2,
                joint_attention_dim=16,
                caption_projection_dim=16,
                pooled_projection_dim=16,
                out_channels=4,
                pos_embed_max_size=8,
            ),
            dict(
                hidden_states=normal(2, 4, 8, 8),
                encoder_hidden_states=normal(2, 5, 16),
                pooled_projections=normal(2, 16),
                timestep=steps,
            ),
        ),
        "diffusers flux": lambda: (
            diffusers.FluxTransformer2DModel(
                patch_size=1,
                in_channels=4,
                num_layers=1,
                num_single_layers=1,
                attention_head_dim=16,
                num_attention_heads=2,
                joint_attention_dim=16,
                pooled_projection_dim=16,
                axes_dims_rope=(4, 4, 8),
            ),
            dict(
                hidden_states=normal(2, 9, 4),
                encoder_hidden_states=normal(2, 5, 16),
                pooled_projections=normal(2, 16),
                timestep=torch.tensor([0.3, 0.5]),
                img_ids=normal(9, 3),
                txt_ids=torch.zeros(5, 3),
            ),
        ),
    }

peft, transformers = module("peft"), module("transformers")
if peft and transformers:
    tokens = integers(3, 60, 2, 12)

    def adapted(config):
        llama = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=64,
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
            )
        )
        return peft.get_peft_model(llama, config), dict(input_ids=tokens, labels=tokens)

    chosen = dict(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    families |= {
        "peft lora": lambda: adapted(peft.LoraConfig(r=4, lora_dropout=0.0, **chosen)),
        "peft dora": lambda: adapted(peft.LoraConfig(r=4, use_dora=True, **chosen)),
        "peft ia3": lambda: adapted(peft.IA3Config(feedforward_modules=[], **chosen)),
        "peft prefix": lambda: adapted(
            peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
        ),
        "peft oft": lambda: adapted(peft.OFTConfig(r=0, oft_block_size=4, **chosen)),
    }

if __name__ == "__main__":
    train_each(families)
