"""Hugging Face OLMoE over bytes: what learn_curve.py and learn_text.py share."""
import hashlib, os, subprocess, tempfile
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import numpy as np
import torch, torch.nn.functional as F
from transformers import OlmoeConfig, OlmoeForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))


def config(d, layers, heads, kv, experts, topk, hidden, seq):
    return OlmoeConfig(
        vocab_size=256, hidden_size=d, intermediate_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv, num_experts=experts, num_experts_per_tok=topk, norm_topk_prob=True, max_position_embeddings=seq,
        router_aux_loss_coef=0.01, output_router_logits=True, use_cache=False, tie_word_embeddings=False,
        pad_token_id=None, eos_token_id=None, bos_token_id=None)


def build(cfg, attention, experts, seed):
    """attention: eager | sdpa; experts: eager | grouped_mm. The weights depend on the seed alone."""
    cfg._attn_implementation, cfg._experts_implementation = attention, experts
    torch.manual_seed(seed)
    return OlmoeForCausalLM(cfg).train()


def losses(model, tok, lab):
    """tok, lab (B,S), labels already shifted, every one counted -> total, cross-entropy, scaled load-balancing loss."""
    out = model(input_ids=tok, use_cache=False)
    ce = F.cross_entropy(out.logits.flatten(0, 1).float(), lab.reshape(-1))
    lb = model.config.router_aux_loss_coef * out.aux_loss
    return ce + lb, ce, lb


def load_text(path):
    """-> (uint8 array, what it is). Without a path the text of text.sh."""
    if path:
        data, what = np.fromfile(path, dtype=np.uint8), os.path.basename(path)
    else:
        with tempfile.TemporaryDirectory() as tmp:
            f = os.path.join(tmp, "perl-doc.txt")
            what = subprocess.run([os.path.join(HERE, "text.sh"), f], check=True, capture_output=True, text=True).stdout.split()[-1]
            data = np.fromfile(f, dtype=np.uint8)
    return data, dict(source=what, bytes=int(data.size), sha256=hashlib.sha256(data.tobytes()).hexdigest())
