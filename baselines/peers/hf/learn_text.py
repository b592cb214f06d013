#!/usr/bin/env python3
"""The timed peer for "learns as well in the same time": Hugging Face OLMoE on real text, for a budget of seconds.

4 layers, 16 experts, top-4, d 256, 4 heads / 2 kv, expert width 256, bytes as tokens, seq 256, batch 12; AdamW (0.9, 0.95),
eps 1e-8, decay 0.1 on every parameter, learning rate 2e-3 by a cosine to a tenth without warm-up, clip 1.0, load-balancing
loss 0.01; attention sdpa, experts grouped_mm, fused AdamW; FP32 or BF16 autocast, whichever is faster here.

Text: --text, default text.sh. The last tenth (bytes // 10) is held out. A training row starts at a uniform random byte of the
rest. The held-out loss is the mean cross-entropy in FP32 over 65,536 labels: 256 non-overlapping windows of 256 bytes, one
after the other from the first held-out byte; the labels are the bytes one further on.

Time: before the clock starts, the precisions are tried, and the code compiled with --compile, on a copy of the model. The clock
runs from the first step to the end of the last; the held-out loss is outside. The schedule counts steps: after PLAN_FIRST
steps their total is set to those done plus what the time left allows at the mean step time, and is set anew every
PLAN_EVERY steps, so that the cosine ends with the budget; until the first plan the rate is the full one. The run ends with
the last planned step, or with the first that ends past the budget.

Prints one JSON line; writes step,seconds,tokens,loss (training cross-entropy of every step) to --curve.
"""
import argparse, copy, csv, json, math, platform, sys, time
import torch, transformers
import olmoe

DIMS = dict(d=256, layers=4, heads=4, kv=2, experts=16, topk=4, hidden=256, seq=256)
BATCH, HELDOUT_TOKENS = 12, 65536
LR, LR_END = 2e-3, 0.1
PLAN_FIRST, PLAN_EVERY = 20, 100


class Trainer:
    def __init__(self, model, dtype, compiled):
        self.model, self.dtype = model, dtype
        self.losses = torch.compile(olmoe.losses, dynamic=False) if compiled else olmoe.losses
        self.opt = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)

    def step(self, tok, lab, lr):
        self.opt.param_groups[0]["lr"] = lr
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "autocast"):
            total, ce, _ = self.losses(self.model, tok, lab)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        return ce.item()


def batches(train, seed):
    g, at = torch.Generator().manual_seed(seed), torch.arange(DIMS["seq"] + 1)
    while True:
        start = torch.randint(0, train.numel() - DIMS["seq"], (BATCH, 1), generator=g)
        b = train[start + at].long()
        yield b[:, :-1], b[:, 1:]


def choose(model, dtypes, compiled, train):
    """-> the dtype with the shortest step of six on a copy of the model, and those step times in ms."""
    best = {}
    for d in dtypes:
        t, data, ms = Trainer(copy.deepcopy(model), d, compiled), batches(train, 0), []
        for _ in range(8):
            tok, lab = next(data)
            s = time.perf_counter()
            t.step(tok, lab, LR)
            ms.append((time.perf_counter() - s) * 1e3)
        best[d] = round(min(ms[2:]), 1)
    return min(best, key=best.get), best


def heldout_loss(model, held):
    S, n = DIMS["seq"], HELDOUT_TOKENS // DIMS["seq"]
    tok, lab = (held[i: HELDOUT_TOKENS + i].view(n, S).long() for i in (0, 1))
    model.eval()
    with torch.no_grad():
        return sum(olmoe.losses(model, tok[i: i + 16], lab[i: i + 16])[1].item() for i in range(0, n, 16)) / (n // 16)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seconds", type=float, default=480)
    ap.add_argument("--text", help="file of bytes; default: text.sh")
    ap.add_argument("--curve", default="learn_text.csv", help="CSV to write (default %(default)s)")
    ap.add_argument("--dtype", default="auto", choices=["auto", "fp32", "autocast"])
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    text, what = olmoe.load_text(a.text)
    cut = text.size - text.size // 10
    train, held = torch.from_numpy(text[:cut]), torch.from_numpy(text[cut:])
    if held.numel() <= HELDOUT_TOKENS:
        sys.exit(f"learn_text.py: error: the text has {text.size} bytes, more than {10 * HELDOUT_TOKENS} are needed")
    model = olmoe.build(olmoe.config(**DIMS), "sdpa", "grouped_mm", a.seed)
    dtype, tried = choose(model, ["fp32", "autocast"] if a.dtype == "auto" else [a.dtype], a.compile, train)
    trainer, data, total = Trainer(model, dtype, a.compile), batches(train, a.seed), None
    step, rows, t0, now = 0, [], time.perf_counter(), 0.0
    while now < a.seconds and (total is None or step < total):
        done = 0.0 if total is None else step / total
        lr = LR * (LR_END + (1 - LR_END) * (1 + math.cos(math.pi * done)) / 2)
        loss = trainer.step(*next(data), lr)
        step, now = step + 1, time.perf_counter() - t0
        rows.append((step, f"{now:.3f}", step * BATCH * DIMS["seq"], f"{loss:.6f}"))
        if step == PLAN_FIRST or step % PLAN_EVERY == 0:
            total = step + max(0, math.floor((a.seconds - now) / (now / step)))
    with open(a.curve, "w") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(("step", "seconds", "tokens", "loss"))
        w.writerows(rows)
    last = [float(r[3]) for r in rows[-20:]]
    print(json.dumps(dict(
        schema="moemark/peer-learn/1", impl="hf-grouped" + ("-compile" if a.compile else ""), dtype=dtype, tried_step_ms=tried,
        threads=a.threads, seed=a.seed, budget_s=a.seconds, seconds=round(now, 3), steps=step, steps_planned=total,
        tokens=step * BATCH * DIMS["seq"], tok_s=round(step * BATCH * DIMS["seq"] / now, 1), heldout_loss=round(heldout_loss(model, held), 6),
        heldout_tokens=HELDOUT_TOKENS, train_loss_last20=round(sum(last) / len(last), 6), params=sum(p.numel() for p in model.parameters()),
        text=what, train_bytes=cut, torch=torch.__version__, transformers=transformers.__version__, python=platform.python_version())))


main()
