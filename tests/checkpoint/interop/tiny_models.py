# SPDX-License-Identifier: Apache-2.0
"""Random models small enough for a test, with weights as heavy-tailed as trained ones."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

VOCABULARY = 32


def _fill(model, seed):
    torch.manual_seed(seed)
    heavy = torch.distributions.StudentT(4.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.copy_(heavy.sample(parameter.shape) * 0.05)
    return model.to(torch.bfloat16)


def _sizes(hidden, intermediate, heads, head_dim):
    return dict(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=1,
        head_dim=head_dim,
        tie_word_embeddings=False,
        max_position_embeddings=64,
    )


def dense():
    """K of 64 and 96: whole groups of 32, partial blocks of 128."""
    return _fill(Qwen3ForCausalLM(Qwen3Config(**_sizes(64, 96, 2, 32))), 7)


def wide():
    """N and K of 128 and 256, for the tools that take whole blocks only."""
    return _fill(Qwen3ForCausalLM(Qwen3Config(**_sizes(128, 256, 1, 128))), 8)


def experts():
    """Three experts, two of them for each token."""
    sizes = _sizes(64, 96, 2, 32)
    config = Qwen3MoeConfig(**sizes, moe_intermediate_size=32, num_experts=3, num_experts_per_tok=2)
    return _fill(Qwen3MoeForCausalLM(config), 9)


def token_batches(count=4, length=16):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCABULARY, (1, length), generator=generator) for _ in range(count)]
