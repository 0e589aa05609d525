"""Real models as frontends export them, small in width and of any depth. Nothing is computed: no weight has a value.

Weights are arguments of the function, so that they cost the compiler nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

WIDTH, HEADS, HIDDEN, ROWS, WORDS = 64, 4, 128, 16, 256


def llama(layers: int) -> bytes:
    """A decoder with rotary embeddings, grouped keys and values and a gated feed-forward part."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        vocab_size=WORDS,
        attn_implementation="eager",
    )
    return _of_text(lambda: LlamaModel(config))


def bert(layers: int) -> bytes:
    """An encoder with learned positions, layer norms and gelu."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        vocab_size=WORDS,
        max_position_embeddings=2 * ROWS,
        attn_implementation="eager",
    )
    return _of_text(lambda: BertModel(config, add_pooling_layer=False))


def resnet(blocks: int) -> bytes:
    """Convolutions with batch norms and residuals, in four stages."""
    import torch
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[blocks // 4] * 4)
    with torch.device("meta"):
        model = ResNetModel(config)
        return _exported(model, torch.empty(1, 3, 64, 64))


def flax(layers: int) -> bytes:
    """A transformer encoder in Flax, as JAX lowers it."""
    import jax
    from flax import linen as nn

    class Block(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(y, y)
            return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(HIDDEN)(nn.LayerNorm()(x))))

    class Encoder(nn.Module):  # type: ignore[misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(layers):
                x = Block()(x)
            return nn.LayerNorm()(x)

    x = jax.ShapeDtypeStruct((1, ROWS, WIDTH), "float32")
    weights = jax.eval_shape(Encoder().init, jax.random.key(0), x)
    return str(jax.jit(Encoder().apply).lower(weights, x).compiler_ir("stablehlo")).encode()


MODELS: dict[str, Callable[[int], bytes]] = {"llama": llama, "bert": bert, "resnet": resnet, "flax": flax}
# Two small depths, which tell how many ops a layer is.
FEW = (4, 8)


def _of_text(make: Callable[[], Any]) -> bytes:
    import torch

    with torch.device("meta"):
        mask = torch.zeros(1, 1, ROWS, ROWS)  # a mask of floats: what makes one of words does not compile
        return _exported(make(), torch.zeros(1, ROWS, dtype=torch.int64), mask)


def _exported(model: Any, *arguments: Any) -> bytes:
    """The bytecode of a model in the Torch dialect."""
    import torch
    from iree.compiler.extras.fx_importer import FxImporter

    model.config.return_dict = False
    model.config.use_cache = False
    program = torch.export.export(model.eval(), arguments, strict=False)
    importer = FxImporter()
    apart = {torch.ops.aten._native_batch_norm_legit_no_training.default: _batch_norm}  # all other ops stay whole
    importer.import_stateless_graph(program.run_decompositions(apart).graph, func_name="main")
    made = io.BytesIO()
    importer.module_op.write_bytecode(made)
    return made.getvalue()


def _batch_norm(x: Any, gain: Any, bias: Any, mean: Any, variance: Any, _momentum: float, eps: float) -> Any:
    """At inference, channels second; the op has two empty results besides."""
    scale, shift = (v[:, None, None] for v in (gain * (variance + eps).rsqrt(), bias))
    return (x - mean[:, None, None]) * scale + shift, x.new_empty(0), x.new_empty(0)
