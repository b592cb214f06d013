"""Independent check of every g*: our own float64 forward from the stored weights (no library model code), compared with the
stored float64 losses, logits, router weights, and (through torch autograd of our forward) every stored float64 gradient."""
import glob, json, math, os, sys
import torch, torch.nn.functional as F
from safetensors.torch import load_file
torch.set_num_threads(1)
HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")  # the folder that holds g*/


def rms(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


def rope(x, theta):  # x [B,S,H,hd]
    hd, S = x.shape[-1], x.shape[1]
    f = torch.outer(torch.arange(S, dtype=torch.float64), theta ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd))
    f = torch.cat((f, f), -1)[None, :, None]
    return x * f.cos() + torch.cat((-x[..., hd // 2:], x[..., :hd // 2]), -1) * f.sin()


def attn(x, wq, wk, wv, wo, H, Hk, theta, qn=None, kn=None, eps=0, per_head=False):
    B, S, _ = x.shape
    q, k, v = x @ wq.t(), x @ wk.t(), x @ wv.t()
    if qn is not None and not per_head:
        q, k = rms(q, qn, eps), rms(k, kn, eps)
    q, k, v = (t.view(B, S, n, -1) for t, n in ((q, H), (k, Hk), (v, Hk)))
    if qn is not None and per_head:
        q, k = rms(q, qn, eps), rms(k, kn, eps)
    q, k = rope(q, theta), rope(k, theta)
    k, v = (t.repeat_interleave(H // Hk, 2) for t in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    s = s.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", s, v).reshape(B, S, -1) @ wo.t()


def moe(x, wr, K, gate, up, down, norm, scale):  # gate(e), up(e) [h,d]; down(e) [d,h]
    lg = x @ wr.t()
    p = lg.softmax(-1)
    w, idx = p.topk(K, -1)
    if norm:
        w = w / w.sum(-1, keepdim=True) * scale
    out = torch.zeros_like(x)
    for e in range(wr.shape[0]):
        we = (w * (idx == e)).sum(-1, keepdim=True)
        out = out + we * ((F.silu(x @ gate(e).t()) * (x @ up(e).t())) @ down(e).t())
    return out, lg, p, w, idx


def hf(W, m, tok, lab):
    c, qwen = m["config"], "Qwen" in m["source"]
    H, Hk, E, K, L, eps = c["num_attention_heads"], c["num_key_value_heads"], c.get("num_experts") or c["num_local_experts"], c["num_experts_per_tok"], c["num_hidden_layers"], c["rms_norm_eps"]
    theta = c["rope_parameters"]["rope_theta"]
    x = W["model.embed_tokens.weight"][tok]
    rt = []
    for l in range(L):
        p = f"model.layers.{l}."
        a = p + "self_attn."
        h = rms(x, W[p + "input_layernorm.weight"], eps)
        x = x + attn(h, *(W[a + n + "_proj.weight"] for n in "qkvo"), H, Hk, theta, W[a + "q_norm.weight"], W[a + "k_norm.weight"], eps, per_head=qwen)
        h = rms(x, W[p + "post_attention_layernorm.weight"], eps)
        g = W[p + "mlp.experts.gate_up_proj"]; d = W[p + "mlp.experts.down_proj"]; n = g.shape[1] // 2
        y, lg, pr, w, idx = moe(h, W[p + "mlp.gate.weight"], K, lambda e: g[e, :n], lambda e: g[e, n:], lambda e: d[e], c["norm_topk_prob"], 1.0)
        x = x + y
        rt.append((l, lg, pr, w, idx))
    logits = rms(x, W["model.norm.weight"], eps) @ W["lm_head.weight"].t()
    P = torch.cat([r[2].reshape(-1, E) for r in rt]); I = torch.cat([r[4].reshape(-1, K) for r in rt])
    f = F.one_hot(I, E).double().sum(1).mean(0)
    lb = E * (f * P.mean(0)).sum()
    ce = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), lab.reshape(-1))
    return ce + c["router_aux_loss_coef"] * lb, dict(ce=ce, lb_unscaled=lb), logits, rt


def olmo(W, m, tok, lab):
    c = m["config"]
    d, H, Hk, E, K, L, h, eps, place = c["d"], c["heads"], c["kv"], c["E"], c["K"], c["layers"], c["h"], 1e-6, c["norm_placement"]
    x = W["embeddings.weight"][tok]
    if c["embed_scale_sqrt_d_and_embedding_norm"]:
        x = rms(x * math.sqrt(d), W["embedding_norm.weight"], eps)
    rt, lb, z = [], 0.0, 0.0
    B, S = tok.shape
    for l in range(L):
        p = f"blocks.{l}."
        a = p + "attention."
        pre = lambda x, k: rms(x, W[p + k + "_input_norm.weight"], eps) if place == "peri" else rms(x, W[p + k + "_norm.weight"], eps) if place == "pre" else x
        post = lambda y, k: y if place == "pre" else rms(y, W[p + k + "_norm.weight"], eps)
        x = x + post(attn(pre(x, "attention"), *(W[a + n + ".weight"] for n in ("w_q", "w_k", "w_v", "w_out")), H, Hk, 5e5,
                          W[a + "q_norm.weight"], W[a + "k_norm.weight"], eps, per_head=True), "attention")
        hin = pre(x, "feed_forward")
        ug, dn = W[p + "shared_experts.w_up_gate"], W[p + "shared_experts.w_down"][0]
        n = ug.shape[1] // 2
        y = ((hin @ ug[:, :n]) * F.silu(hin @ ug[:, n:])) @ dn
        if l > 0:
            g, dd = W[p + "routed_experts.w_up_gate"], W[p + "routed_experts.w_down"]
            yr, lg, pr, w, idx = moe(hin, W[p + "routed_experts_router.weight"].view(E, d), K, lambda e: g[e, h:], lambda e: g[e, :h], lambda e: dd[e].t(), True, K)
            y = y + yr
            oh = F.one_hot(idx, E).double().sum(2)  # B,S,E
            if c.get("granularity") == "instance":
                lb = lb + E / K * (pr.mean(1) * oh.sum(1)).sum() / (B * S)
            else:
                lb = lb + E / K * (pr.mean((0, 1)) * oh.sum((0, 1))).sum() / (B * S)
            z = z + lg.logsumexp(-1).square().mean()
            rt.append((l, lg, pr, w, idx))
        x = x + post(y, "feed_forward")
    logits = rms(x, W["lm_head.norm.weight"], eps) @ W["lm_head.w_out.weight"].t()
    ce = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), lab.reshape(-1))
    return ce + c["lb_w"] * lb + c["z_w"] * z, dict(ce=ce, lb_unscaled=lb, z_unscaled=z), logits, rt


bad = 0
for d in sorted(glob.glob(os.path.join(HERE, "g*-*/"))):
    m = json.load(open(d + "golden.json")); t = load_file(d + "golden.safetensors"); t64 = load_file(d + "golden_f64.safetensors")
    W = {k[7:]: v.double().requires_grad_() for k, v in t.items() if k.startswith("weight/")}
    tok, lab = t["tokens"][0].long(), t["labels"][0].long()
    total, parts, logits, rt = (olmo if "olmo-core" in m["source"] else hf)(W, m, tok, lab)
    total.backward()
    soft = {}
    err = dict(total=abs(total.item() - t64["loss/total"].item()), logits=(logits - t64["logits"]).abs().max().item())
    for k, v in parts.items():
        err[k] = abs(v.item() - t64["loss/" + k].item())
    for l, lg, pr, w, idx in rt:
        q = t64[f"router/{l}/topk_idx"].reshape(idx.shape)
        err["idx"] = err.get("idx", 0) + (q != idx).sum().item()
        err["topk_w"] = max(err.get("topk_w", 0), (t64[f"router/{l}/topk_w"].reshape(w.shape).double() - w).abs().max().item())
        err["probs"] = max(err.get("probs", 0), (t64[f"router/{l}/probs"].reshape(pr.shape).double() - pr).abs().max().item())
    err["grad_rel"] = max(((W[k[5:]].grad - v).norm() / (v.norm() + 1e-300)).item() for k, v in t64.items() if k.startswith("grad/"))
    for key, clip, tag in (("adamw_steps_f64", None, "adamw"), ("adamw_steps_clip1", 1.0, "adamw_clip_vs_f32")):
        P = {k: v.detach().clone().requires_grad_() for k, v in W.items()}
        mo, vo = ({k: torch.zeros_like(v) for k, v in P.items()} for _ in range(2))
        e = 0.0
        for i in range(5):
            tot, *_ = (olmo if "olmo-core" in m["source"] else hf)(P, m, t["tokens"][i].long(), t["labels"][i].long())
            g = torch.autograd.grad(tot, list(P.values()))
            gn = torch.sqrt(sum(x.square().sum() for x in g))
            s = min(1.0, clip / (gn.item() + 1e-6)) if clip else 1.0
            with torch.no_grad():
                for (k, p), x in zip(P.items(), g):
                    x = x * s
                    mo[k].mul_(0.9).add_(0.1 * x); vo[k].mul_(0.95).add_(0.05 * x * x)
                    p.mul_(1 - 1e-3 * 0.1)
                    p.sub_(1e-3 * (mo[k] / (1 - 0.9 ** (i + 1))) / ((vo[k] / (1 - 0.95 ** (i + 1))).sqrt() + 1e-8))
            st = m[key][i]
            e = max(e, abs(st["total"] - tot.item()), abs(st["grad_norm_before_clip"] - gn.item()) / gn.item(),
                    *(abs(st["params_after"][k][1] - p.norm().item()) / p.norm().item() for k, p in P.items()))
        (err if tag == "adamw" else soft)[tag] = e
    f32 = abs(total.item() - t["loss/total"].item())
    ok = max(err.values()) < 1e-9 and f32 < 5e-6 and max(soft.values()) < 2e-5
    bad += not ok
    print("PASS" if ok else "FAIL", os.path.basename(d[:-1]), {k: f"{v:.1e}" for k, v in err.items()}, {k: f"{v:.1e}" for k, v in soft.items()}, f"vs f32 total {f32:.1e}")
sys.exit(bad > 0)
