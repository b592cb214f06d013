"""Shared writer for the golden vectors. Needs only torch, numpy, safetensors."""
import contextlib, json, os, sys
import torch
import torch.nn.functional as F
from safetensors.torch import save_file, load_file

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")  # the folder that holds g*/
OPT = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
NSTEPS = 5


@contextlib.contextmanager
def f64_mode():
    """Make library code that casts to float32 on purpose (norms, router softmax, RoPE) cast to float64 instead."""
    keep = (torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype())
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = keep[:3]
        torch.set_default_dtype(keep[3])


def batches(seed, n, batch, seq, vocab):
    g = torch.Generator().manual_seed(seed)
    t = torch.randint(0, vocab, (n, batch, seq + 1), generator=g)
    return t[:, :, :-1].contiguous(), t[:, :, 1:].contiguous()


def perturb_norms(model, seed, scale=0.1):
    """Norm gains start at 1 in every library; move them so that a wrong gain shows."""
    g = torch.Generator().manual_seed(seed)
    for n, p in model.named_parameters():
        if "norm" in n and p.ndim <= 2:
            p.data.add_(scale * torch.randn(p.shape, generator=g, dtype=torch.float32).to(p.dtype))


def checksum(model):
    return {n: [p.detach().double().sum().item(), p.detach().double().norm().item()] for n, p in model.named_parameters()}


def train_steps(model, loss_fn, tokens, labels, clip=None):
    opt = torch.optim.AdamW(model.parameters(), foreach=False, fused=False, **OPT)
    out = []
    for i in range(NSTEPS):
        r = loss_fn(model, tokens[i], labels[i])
        opt.zero_grad(set_to_none=True)
        r["total"].backward()
        gn = torch.sqrt(sum(p.grad.double().square().sum() for p in model.parameters() if p.grad is not None)).item()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip, foreach=False)
        opt.step()
        out.append(dict(step=i + 1, **{k: v.item() for k, v in r.items() if k in SCALARS},
                        grad_norm_before_clip=gn, params_after=checksum(model)))
    return out


SCALARS = ("total", "ce", "lb", "z", "lb_unscaled", "z_unscaled")


def gen(name, build, loss_fn, tokens, labels, meta):
    """build() -> fp32 model (deterministic). loss_fn(model, tok, lab) -> dict with scalars total/ce/lb/z,
    'logits', and per routed layer 'probs','topk_idx','topk_w','router_logits' lists."""
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    meta = dict(name=name, torch=torch.__version__, python=sys.version.split()[0],
                adamw=dict(OPT, betas=list(OPT["betas"]), one_group="decay on every parameter, norms and embeddings too",
                           impl="torch.optim.AdamW(foreach=False, fused=False)"), **meta)

    def one(dtype):
        model = build()
        if dtype == torch.float64:
            model = model.double()
        t = {}
        for n, p in model.named_parameters():
            t["weight/" + n] = p.detach().clone()
        r = loss_fn(model, tokens[0], labels[0])
        r["total"].backward()
        for n, p in model.named_parameters():
            t["grad/" + n] = torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
        t["logits"] = r["logits"].detach().clone()
        for k in ("router_logits", "probs", "topk_idx", "topk_w"):
            for l, v in r[k].items():
                t[f"router/{l}/{k}"] = v.detach().clone().contiguous()
        for k in SCALARS:
            if k in r:
                t["loss/" + k] = r[k].detach().reshape(1).clone()
        return t, r

    t, r = one(torch.float32)
    t["tokens"], t["labels"] = tokens.to(torch.int32), labels.to(torch.int32)
    with f64_mode():
        t64, _ = one(torch.float64)
        m = build().double()
        steps64 = train_steps(m, loss_fn, tokens, labels)
    m = build()
    steps = train_steps(m, loss_fn, tokens, labels)
    for n, p in m.named_parameters():
        t["after5/" + n] = p.detach().clone()
    m = build()
    steps_clip = train_steps(m, loss_fn, tokens, labels, clip=1.0)
    for n, p in m.named_parameters():
        t["after5_clip1/" + n] = p.detach().clone()
    # how near a tie the routing is, and whether float64 picks the same experts
    margin, same = {}, True
    for l, p in r["probs"].items():
        k = r["topk_idx"][l].shape[-1]
        s = p.detach().double().reshape(-1, p.shape[-1]).sort(-1, descending=True).values
        margin[str(l)] = (s[:, k - 1] - s[:, k]).min().item() if s.shape[1] > k else None
        same &= torch.equal(t[f"router/{l}/topk_idx"], t64[f"router/{l}/topk_idx"])
    rel = max(((t[k].double() - t64[k].double()).norm() / (t64[k].double().norm() + 1e-30)).item() for k in t64 if k.startswith("grad/"))
    meta.update(
        losses={k: r[k].item() for k in SCALARS if k in r}, losses_f64={k: t64["loss/" + k].item() for k in SCALARS if "loss/" + k in t64},
        min_topk_margin=margin, f64_same_experts=bool(same), max_rel_grad_diff_f32_vs_f64=rel,
        max_abs_logit_diff_f32_vs_f64=(t["logits"].double() - t64["logits"]).abs().max().item(),
        adamw_steps=steps, adamw_steps_clip1=steps_clip, adamw_steps_f64=steps64,
        tensors={k: [str(v.dtype)[6:], list(v.shape)] for k, v in t.items()},
        what={"weight/*": "initial parameters, source-library names", "grad/*": "d(total)/d(parameter) at the initial weights, batch 0",
              "tokens, labels": f"[{NSTEPS}, batch, seq]: batch i is used in optimizer step i+1; labels are already the next tokens (do not shift)",
              "logits, router/*, loss/*": "batch 0 at the initial weights", "router/L/topk_w": "the weight really multiplied onto the expert output",
              "after5/*, after5_clip1/*": "parameters after 5 AdamW steps without clipping / with clip_grad_norm_(1.0)",
              "adamw_steps[i]": "losses of batch i before step i+1, gradient norm, and params_after = [sum, L2 norm] per tensor in float64"})
    save_file({k: v.contiguous() for k, v in t.items()}, os.path.join(d, "golden.safetensors"))
    save_file({k: v.contiguous() for k, v in t64.items() if not k.startswith("weight/")}, os.path.join(d, "golden_f64.safetensors"))
    json.dump(meta, open(os.path.join(d, "golden.json"), "w"), indent=1)
    reload_check(name, build, loss_fn)
    print(name, {k: round(v, 6) for k, v in meta["losses"].items()}, "min margin", margin, "f64 same", same, f"grad rel {rel:.2e}")


def reload_check(name, build, loss_fn):
    """Independent reload: fresh model, weights from the file, recompute, compare."""
    d = os.path.join(HERE, name)
    t = load_file(os.path.join(d, "golden.safetensors"))
    m = build()
    with torch.no_grad():
        for p in m.parameters():
            p.fill_(float("nan"))
        sd = dict(m.named_parameters())
        for k, v in t.items():
            if k.startswith("weight/"):
                sd[k[7:]].copy_(v)
    r = loss_fn(m, t["tokens"][0].long(), t["labels"][0].long())
    for k in SCALARS:
        if k in r:
            assert abs(r[k].item() - t["loss/" + k].item()) <= 1e-6 * max(1, abs(t["loss/" + k].item())), (name, k, r[k].item(), t["loss/" + k].item())
    assert (r["logits"] - t["logits"]).abs().max() < 1e-5
    ce = F.cross_entropy(t["logits"].reshape(-1, t["logits"].shape[-1]).double(), t["labels"][0].reshape(-1).long())
    assert abs(ce.item() - t["loss/ce"].item()) < 1e-5, (ce.item(), t["loss/ce"].item())
