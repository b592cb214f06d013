#!/usr/bin/env python3
"""Weights both ways between moemark and transformers, checked by logits.

  roundtrip.py check DIR          DIR written by moemark: config.json, model.safetensors (checkpoint names of OLMoE or Qwen3-MoE),
                                  tokens.safetensors (`tokens` [batch,seq], any integer), logits.safetensors (`logits`
                                  [batch,seq,vocab]); loads it into transformers in FP32 and compares the logits
  roundtrip.py make DIR [--arch olmoe|qwen3_moe] [--seed N]
                                  writes the same four files from a small random model of the library, for moemark to load
check prints one JSON line and exits with 0 (max abs error <= --tol, 1e-4), 1 (more, or tensors missing), 2 (unusable files).
"""
import argparse, json, os, sys
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch, transformers
from safetensors.torch import load_file, save_file

SMALL = dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, num_experts=8,
             num_experts_per_tok=2, norm_topk_prob=True, max_position_embeddings=64, initializer_range=0.08, use_cache=False,
             tie_word_embeddings=False, pad_token_id=None, eos_token_id=None, bos_token_id=None)


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(input_ids=tokens.long(), use_cache=False).logits.float()


def check(a):
    path = lambda f: os.path.join(a.dir, f)
    try:
        tokens, want = load_file(path("tokens.safetensors"))["tokens"], load_file(path("logits.safetensors"))["logits"].float()
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            a.dir, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    except (OSError, KeyError, ValueError) as e:
        print(f"roundtrip.py: error: {a.dir}: {type(e).__name__}: {e}", file=sys.stderr)
        return 2
    bad = {k: sorted(map(str, v)) for k, v in info.items() if v}
    got = logits_of(model, tokens)
    err = (got - want).abs().max().item() if got.shape == want.shape else float("inf")
    ok = err <= a.tol and not bad
    print(json.dumps(dict(schema="moemark/peer-roundtrip/1", dir=a.dir, model=model.config.model_type, tokens=list(tokens.shape),
                          logits=list(want.shape), max_abs_error=err if err < float("inf") else None, max_abs_logit=got.abs().max().item(), tol=a.tol,
                          loading=bad, ok=ok, torch=torch.__version__, transformers=transformers.__version__)))
    return 0 if ok else 1


def make(a):
    torch.manual_seed(a.seed)
    if a.arch == "olmoe":
        cls, cfg = transformers.OlmoeForCausalLM, transformers.OlmoeConfig(intermediate_size=32, **SMALL)
    else:
        cls, cfg = transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig(
            moe_intermediate_size=32, intermediate_size=96, head_dim=32, decoder_sparse_step=1, mlp_only_layers=[], **SMALL)
    cfg._attn_implementation = cfg._experts_implementation = "eager"
    model = cls(cfg)
    for name, p in model.named_parameters():
        if "norm" in name:  # gains start at 1; move them so that a wrong one shows
            p.data.add_(0.1 * torch.randn(p.shape))
    os.makedirs(a.dir, exist_ok=True)
    model.save_pretrained(a.dir)
    tokens = torch.randint(0, cfg.vocab_size, (2, 48), dtype=torch.int32)
    save_file({"tokens": tokens}, os.path.join(a.dir, "tokens.safetensors"))
    save_file({"logits": logits_of(model, tokens).contiguous()}, os.path.join(a.dir, "logits.safetensors"))
    print(f"{a.dir}: {a.arch}, {sum(p.numel() for p in model.parameters())} parameters")
    return 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="verb", required=True)
    c = sub.add_parser("check")
    c.add_argument("dir")
    c.add_argument("--tol", type=float, default=1e-4)
    m = sub.add_parser("make")
    m.add_argument("dir")
    m.add_argument("--arch", default="olmoe", choices=["olmoe", "qwen3_moe"])
    m.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(1)
    sys.exit(check(a) if a.verb == "check" else make(a))


main()
