#!/usr/bin/env python3
"""200 AdamW steps of Hugging Face OLMoE on real text: the curve that moemark's trainer has to follow.

Writes a folder in the format of tests/golden/data: golden.json, golden.safetensors (weight/*, tokens, labels) and one CSV of
losses a variant. All variants see the same batches from the same weights and differ in rounding alone, so that the distances
between them are the noise floor of the comparison:
  curve-eager.csv     FP32, experts "eager" (one matmul an expert), attention eager
  curve-grouped.csv   FP32, experts "grouped_mm", attention sdpa
  curve-f64.csv       FP64, experts and attention eager
  curve-ulp1..4.csv   as eager, initial weights times 1 + 2^-23 N(0,1): what rounding of the input alone does
Two runs stay within rounding of each other until one token is routed to another expert; from there they part. Whether and
when that happens is luck, so one pair of runs is no floor: take the largest distance over all of them.
"""
import argparse, contextlib, csv, itertools, json, os, platform, sys, time
import torch, transformers
from safetensors.torch import load_file, save_file
import olmoe

DIMS = dict(d=64, layers=2, heads=4, kv=2, experts=8, topk=2, hidden=64, seq=128)
STEPS, BATCH, SEED = 200, 24, 501
OPT = dict(lr=5e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
VARIANTS = {"eager": ("eager", "eager"), "grouped": ("sdpa", "grouped_mm"), "f64": ("eager", "eager"),
            **{f"ulp{i}": ("eager", "eager") for i in range(1, 5)}}
APART = 1e-5  # nats of total loss: more than rounding, so a token has gone another way
COLUMNS = ("step", "total", "ce", "lb", "grad_norm")
sys.path.insert(0, os.path.join(olmoe.ROOT, "tests", "golden", "make"))
from common import f64_mode  # noqa: E402


def train(model, tokens, labels):
    opt = torch.optim.AdamW(model.parameters(), foreach=False, fused=False, **OPT)
    rows = []
    for step, (tok, lab) in enumerate(zip(tokens, labels), 1):
        total, ce, lb = olmoe.losses(model, tok.long(), lab.long())
        opt.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        opt.step()
        rows.append([step, *(x.item() for x in (total, ce, lb, norm))])
    return rows


def variant(name, start, tokens, labels):
    attention, experts = VARIANTS[name]
    with f64_mode() if name == "f64" else contextlib.nullcontext():
        model = olmoe.build(olmoe.config(**DIMS), attention, experts, SEED)
        model.load_state_dict(start)
        if name.startswith("ulp"):
            g = torch.Generator().manual_seed(int(name[3:]))
            for p in model.parameters():
                p.data.mul_(1 + 2 ** -23 * torch.randn(p.shape, generator=g))
        return train(model.double() if name == "f64" else model, tokens, labels)


def distances(curves):
    """Of every pair, and the worst of any: each column at any step, the mean total of the last 50 steps, the first step apart."""
    def d(x, y):
        r = {c: max(abs(p[i] - q[i]) for p, q in zip(x, y)) for i, c in enumerate(COLUMNS) if i}
        r["mean_total_last50"] = abs(sum(p[1] - q[1] for p, q in zip(x[-50:], y[-50:]))) / 50
        r["first_step_apart"] = next((p[0] for p, q in zip(x, y) if abs(p[1] - q[1]) > APART), None)
        return r
    pairs = {f"{a} against {b}": d(curves[a], curves[b]) for a, b in itertools.combinations(curves, 2)}
    worst = {k: max(p[k] for p in pairs.values()) for k in (*COLUMNS[1:], "mean_total_last50")}
    worst["first_step_apart"] = min((p["first_step_apart"] for p in pairs.values() if p["first_step_apart"]), default=None)
    return {"any pair": worst, **pairs}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default=os.path.join(olmoe.ROOT, "tests", "golden", "curve"))
    ap.add_argument("--text", help="file of bytes; default: text.sh")
    ap.add_argument("--weights", help="safetensors with weight/*; default: the library's own initialisation from the seed")
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    text, what = olmoe.load_text(a.text)
    need = STEPS * BATCH * DIMS["seq"] + 1
    if text.size < need:
        sys.exit(f"learn_curve.py: error: {text.size} bytes of text, {need} are needed")
    stream = torch.from_numpy(text[:need])
    tokens, labels = (stream[i: need - 1 + i].view(STEPS, BATCH, DIMS["seq"]) for i in (0, 1))
    start = olmoe.build(olmoe.config(**DIMS), "eager", "eager", SEED).state_dict()
    if a.weights:
        start = {k[7:]: v for k, v in load_file(a.weights).items() if k.startswith("weight/")}

    os.makedirs(a.out, exist_ok=True)
    curves = {}
    for name in VARIANTS:
        t = time.perf_counter()
        curves[name] = variant(name, start, tokens, labels)
        with open(os.path.join(a.out, f"curve-{name}.csv"), "w") as f:
            w = csv.writer(f, lineterminator="\n")
            w.writerow(COLUMNS)
            w.writerows([r[0], *(f"{x:.9g}" for x in r[1:])] for r in curves[name])
        print(f"{name}: total {curves[name][0][1]:.6f} -> {curves[name][-1][1]:.6f} in {time.perf_counter() - t:.1f} s")

    tensors = {"weight/" + k: v.float().contiguous() for k, v in start.items()}
    tensors.update(tokens=tokens.clone(), labels=labels.clone())
    save_file(tensors, os.path.join(a.out, "golden.safetensors"))
    floor = distances(curves)
    cfg = {k: v for k, v in olmoe.config(**DIMS).to_dict().items() if not k.startswith("_")}
    meta = dict(
        name="curve", source=f"transformers {transformers.__version__} OlmoeForCausalLM", torch=torch.__version__,
        python=platform.python_version(), seed=SEED, config=cfg, batch=BATCH, seq=DIMS["seq"], steps=STEPS,
        adamw=dict(OPT, betas=list(OPT["betas"]), clip_grad_norm=1.0, one_group="decay on every parameter, norms and embeddings too",
                   schedule="constant", impl="torch.optim.AdamW(foreach=False, fused=False)"),
        text=dict(what, used_bytes=need),
        notes=["total = ce + lb; lb = router_aux_loss_coef * E * sum_e f_e P_e, pooled over layers, perfectly balanced value 0.01*K (as g1, g2).",
               "ce: mean over batch*seq labels; labels are the next bytes, do not shift. grad_norm: before clipping.",
               "Row s of a curve: losses of batch s-1 before step s.",
               "tokens and labels flattened are bytes 0.. and 1.. of the text: window w = step*batch + row starts at byte w*seq.",
               "expert weights: experts.gate_up_proj [E, 2h, d] (rows 0..h-1 gate, h..2h-1 up), experts.down_proj [E, d, h]."],
        losses_first={n: c[0][1] for n, c in curves.items()}, losses_last={n: c[-1][1] for n, c in curves.items()},
        noise_floor=floor, tensors={k: [str(v.dtype)[6:], list(v.shape)] for k, v in tensors.items()},
        what={"weight/*": "initial parameters, library names", "tokens, labels": "[steps, batch, seq] bytes (U8)",
              "noise_floor": "largest |difference| at any step, per column; of the mean total of the last 50 steps; and the first step at "
                             f"which the totals are more than {APART:g} apart. 'any pair' is the one to use"})
    with open(os.path.join(a.out, "golden.json"), "w") as f:
        json.dump(meta, f, indent=1)
        f.write("\n")
    print(json.dumps({k: floor[k] for k in ("eager against grouped", "any pair")}))


if __name__ == "__main__":
    main()
