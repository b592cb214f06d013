"""The MoE models of other libraries behind one call: model(tokens, labels) -> loss. c holds the dims (bench_peer.SHAPES)."""
import os, sys
import torch, torch.nn as nn, torch.nn.functional as F
from plain import AUX, ZL

GOLDEN_MAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "tests", "golden", "make")


class HF(nn.Module):
    """transformers OlmoeForCausalLM; mode names its experts implementation."""

    def __init__(self, c, mode):
        super().__init__()
        from transformers import OlmoeConfig, OlmoeForCausalLM
        cfg = OlmoeConfig(vocab_size=c.vocab, hidden_size=c.d, intermediate_size=c.hidden, num_hidden_layers=c.layers,
                          num_attention_heads=c.heads, num_key_value_heads=c.kv, num_experts=c.experts,
                          num_experts_per_tok=c.topk, max_position_embeddings=c.seq, norm_topk_prob=True,
                          output_router_logits=True, router_aux_loss_coef=AUX, use_cache=False,
                          tie_word_embeddings=False, pad_token_id=None, eos_token_id=None)
        cfg._attn_implementation = "sdpa"
        cfg._experts_implementation = {"eager": "eager", "grouped": "grouped_mm", "batched": "batched_mm"}[mode]
        self.m, self.vocab = OlmoeForCausalLM(cfg), c.vocab

    def forward(self, tok, lab):
        out = self.m(input_ids=tok, use_cache=False)  # labels given here would be shifted; loss as the library does it
        return F.cross_entropy(out.logits.view(-1, self.vocab).float(), lab.reshape(-1)) + AUX * out.aux_loss


class TitanMoE(nn.Module):
    """torchtitan's MoE layer (its experts always compute in BF16), for use in plain.Block."""

    def __init__(self, c):
        super().__init__()
        from torchtitan.models.common.linear import Linear
        from torchtitan.models.common.moe import MoE, GroupedExperts, RoutedExperts, TokenChoiceTopKRouter
        from torchtitan.models.common.token_dispatcher import LocalTokenDispatcher
        self.shape = (c.batch, c.seq, c.d)
        self.moe = MoE.Config(
            num_experts=c.experts, load_balance_coeff=None,
            routed_experts=RoutedExperts.Config(
                inner_experts=GroupedExperts.Config(dim=c.d, hidden_dim=c.hidden, num_experts=c.experts),
                token_dispatcher=LocalTokenDispatcher.Config(num_experts=c.experts, top_k=c.topk)),
            router=TokenChoiceTopKRouter.Config(
                num_experts=c.experts, gate=Linear.Config(in_features=c.d, out_features=c.experts, bias=False),
                top_k=c.topk, score_func="softmax", route_norm=True)).build()
        for q in self.moe.parameters():
            nn.init.normal_(q, std=0.02)

    def forward(self, x):
        return self.moe(x.view(self.shape)).view(-1, self.shape[2]), torch.zeros(())


class Olmo(nn.Module):
    """Olmo-core 3.0.0 OLMoDDPModel, patched to run on a CPU (tests/golden/make/olmo.py lists how)."""

    def __init__(self, c, seed):
        super().__init__()
        sys.path.insert(0, GOLDEN_MAKE)
        import olmo
        olmo.patch_for_cpu()
        # index_select: much faster backward than fancy indexing
        olmo.no_ep.moe_permute_no_compile = lambda inp, routing_map, **k: (
            lambda o: (inp.index_select(0, o // routing_map.shape[1]), o))(routing_map.reshape(-1).argsort(stable=True))
        olmo.no_ep.moe_unpermute_no_compile = lambda inp, row_id_map, restore_shape, merging_probs, **k: (
            inp.index_select(0, row_id_map.argsort()).view(*merging_probs.shape, -1)
            * merging_probs.to(inp.dtype).unsqueeze(-1)).sum(1).view(restore_shape)
        cfg = olmo.config(d=c.d, layers=c.layers, heads=c.heads, kv=c.kv, hd=c.d // c.heads, E=c.experts, K=c.topk, h=c.hidden,
                          vocab=c.vocab, seed=seed, norm="pre", std=0.02, embed_extras=False, lb_w=AUX, z_w=ZL)
        cfg.block.shared_experts, cfg.block_overrides = None, None  # all layers routed, no shared expert: the FLOPs of the others
        self.m = cfg.build(init_device="cpu")
        self.m.init_weights(device=torch.device("cpu"), max_seq_len=c.seq)
        self.m.float()  # init_weights casts the module to BF16

    def forward(self, tok, lab):
        return self.m(tok, labels=lab, return_logits=False).loss
