#!/usr/bin/env python3
"""Time one full MoE training step (forward, loss, backward, AdamW; random tokens) of a PyTorch program on the CPU.

Prints one JSON line. Start it through run.sh, which sets threads, allocator and environment. others_cpu_pct says how much
of the machine's CPU time other processes took during the timed steps: a launch with more than a few per cent is not a result.
impl : hf-eager hf-grouped hf-batched       transformers OlmoeForCausalLM (libraries.py)
       plain-loop plain-grouped plain-fn    hand-written torch (plain.py)
       titan-moe                            torchtitan's MoE layer, which forces BF16 experts, in the plain block
       olmo-ddp                             Olmo-core 3.0.0 OLMoDDPModel
       any of them + "-compile"             the same under torch.compile
dtype: fp32      everything FP32
       bf16      BF16 weights, activations and gradients, FP32 master weights and Adam moments
       autocast  FP32 weights, torch.autocast("cpu", bfloat16)
"""
import argparse, datetime, importlib.metadata, json, os, platform, resource, statistics, time

SHAPES = {
    "S": dict(d=256, layers=4, heads=4, kv=2, experts=16, topk=4, hidden=256, vocab=4096, seq=256, batch=8),
    "L": dict(d=512, layers=8, heads=8, kv=2, experts=32, topk=4, hidden=512, vocab=8192, seq=512, batch=4),
}
FAMILIES = {"hf": ("eager", "grouped", "batched"), "plain": ("loop", "grouped", "fn"), "titan": ("moe",), "olmo": ("ddp",)}
GROUPS = (  # profiler op name -> group, first hit wins; anything else is "overhead" (autograd, views, Python)
    ("gemm", ("aten::mm", "aten::addmm", "aten::bmm", "aten::_grouped_mm", "mkldnn::", "mkl::")),
    ("attention", ("aten::_scaled_dot",)),
    ("routing+permute", ("index", "gather", "scatter", "sort", "topk", "bincount", "histc", "cumsum", "one_hot", "nonzero",
                         "aten::where", "embedding")),
    ("optimizer", ("adamw", "_foreach")),
    ("elementwise+norm+softmax", (
        "cpp_fused", "aten::mul", "aten::add", "aten::sub", "aten::div", "silu", "sigmoid", "aten::sum", "aten::mean", "aten::pow",
        "rsqrt", "softmax", "nll", "aten::neg", "aten::cat", "aten::copy_", "aten::fill_", "norm", "logsumexp", "exp",
        "aten::clone", "aten::square", "aten::ne", "cross_entropy", "aten::zero")),
)


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    impls = [f"{f}-{m}{c}" for f, ms in FAMILIES.items() for m in ms for c in ("", "-compile")]
    ap.add_argument("--impl", default="plain-fn", choices=impls, metavar="IMPL")
    ap.add_argument("--shape", default="S", choices=SHAPES)
    ap.add_argument("--dtype", default="fp32", choices=["fp32", "bf16", "autocast"])
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--warmup", type=int, default=3)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--gemm", action="store_true", help="also time GEMMs: gemm_gflops, mfu_vs_best_gemm")
    ap.add_argument("--profile", metavar="FILE", help="write a torch.profiler table of one more step here")
    for k in SHAPES["S"]:
        ap.add_argument("--" + k, type=int, help=argparse.SUPPRESS)
    return ap.parse_args()


def flops_per_token(c):
    """Olmo-3 convention: matmuls only, forward and backward, causal attention, head counted, embedding not."""
    hd = c.d // c.heads
    layer = (6 * (2 * c.d * c.heads * hd + 2 * c.d * c.kv * hd) + 12 * c.heads * hd * (c.seq + 1) / 2
             + 6 * c.d * c.experts + 18 * c.d * c.hidden * c.topk)
    return c.layers * layer + 6 * c.d * c.vocab


def gemm_gflops(torch, dtype, m, n, k):
    a, b, o = torch.randn(m, k, dtype=dtype), torch.randn(n, k, dtype=dtype), torch.empty(m, n, dtype=dtype)
    ts = []
    for _ in range(15):
        t = time.perf_counter()
        torch.mm(a, b.t(), out=o)
        ts.append(time.perf_counter() - t)
    return round(2 * m * n * k / statistics.median(ts[3:]) / 1e9, 1)


def profile_shares(torch, step, path):
    """Runs step() under the profiler, writes the table to path, returns the share of time of each group."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        step()
    with open(path, "w") as f:
        f.write(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=40, max_name_column_width=60))
    t = {}
    for e in prof.key_averages():
        own = not e.key.startswith(("autograd::", "Optimizer", "torch::"))
        g = next((g for g, pats in GROUPS if own and any(p in e.key for p in pats)), "overhead")
        t[g] = t.get(g, 0) + e.self_cpu_time_total
    return {k: round(v / sum(t.values()), 3) for k, v in sorted(t.items(), key=lambda kv: -kv[1])}


def cpu_model():
    with open("/proc/cpuinfo") as f:
        info = dict(reversed([[s.strip() for s in line.split(":", 1)] for line in f if ":" in line]))
    isa = [x for x in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if x in info.get("flags", "").split()]
    return info.get("model name", platform.processor()), isa


def tcmalloc_loaded():
    with open("/proc/self/maps") as f:
        return "libtcmalloc" in f.read()


def cpu_seconds():
    """-> (CPU seconds spent by the whole machine, by this process) so far."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
    return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()


def build(a, c, torch):
    import libraries, plain
    family, mode = a.impl.removesuffix("-compile").split("-")
    if family == "hf":
        return libraries.HF(c, mode)
    if family == "olmo":
        return libraries.Olmo(c, a.seed)
    if family == "titan":
        return plain.Plain(c, lambda: libraries.TitanMoE(c))
    return plain.Plain(c, lambda: plain.PlainMoE(c, mode, a.impl.endswith("-compile")))


def make_step(a, model, torch):
    """-> step(tokens, labels) -> loss: one whole training step."""
    params = list(model.parameters())
    master = params
    if a.dtype == "bf16":
        master = [p.detach().clone() for p in params]
        model.to(torch.bfloat16)
        for m in master:
            m.grad = torch.empty_like(m)
    opt = torch.optim.AdamW(master, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    fwd = torch.compile(model, dynamic=False) if a.impl.endswith("-compile") else model
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "autocast", cache_enabled=True)

    def step(tok, lab):
        with autocast:
            loss = fwd(tok, lab)
        loss.backward()
        if a.dtype == "bf16":
            torch._foreach_copy_([m.grad for m in master], [p.grad for p in params])
            opt.step()
            torch._foreach_copy_([p.data for p in params], master)
            for p in params:
                p.grad = None
        else:
            opt.step()
            opt.zero_grad(set_to_none=True)
        return loss.item()
    return step


def main():
    a = arguments()
    os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    if a.profile and a.impl.endswith("-compile"):
        import torch._inductor.config
        torch._inductor.config.cpp.enable_kernel_profile = True
    c = argparse.Namespace(**{k: getattr(a, k) or v for k, v in SHAPES[a.shape].items()})
    model = build(a, c, torch).train()
    nparam = sum(p.numel() for p in model.parameters())
    step = make_step(a, model, torch)
    tok = torch.randint(0, c.vocab, (a.warmup + a.steps + 1, c.batch, c.seq + 1))
    start = datetime.datetime.now(datetime.timezone.utc)
    ms, losses = [], []
    for i in range(a.warmup + a.steps):
        if i == a.warmup:
            busy, own = cpu_seconds()
        t = time.perf_counter()
        losses.append(step(tok[i, :, :-1], tok[i, :, 1:]))
        ms.append((time.perf_counter() - t) * 1e3)
    busy, own = (now - then for now, then in zip(cpu_seconds(), (busy, own)))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ms = ms[a.warmup:]
    tok_s = c.batch * c.seq / statistics.median(ms) * 1e3
    flops = flops_per_token(c)
    cpu, isa = cpu_model()
    rec = dict(
        schema="moemark/peer/1", status="ok", impl=a.impl, shape=a.shape, dims=vars(c), dtype=a.dtype, threads=a.threads, seed=a.seed,
        torch=torch.__version__, transformers=importlib.metadata.version("transformers"), python=platform.python_version(),
        cpu=cpu, isa=isa, tcmalloc=tcmalloc_loaded(), start_utc=start.strftime("%Y-%m-%dT%H:%M:%SZ"), params=nparam,
        warmup_steps=a.warmup, steps=a.steps, tokens_step=c.batch * c.seq, step_ms=[round(x, 3) for x in ms],
        others_cpu_pct=round(max(busy - own, 0) / (sum(ms) / 1e3 * os.cpu_count()) * 100, 1), tok_s=round(tok_s, 1),
        flops_per_token=flops, model_gflops=round(tok_s * flops / 1e9, 1), peak_rss_mib=round(rss),
        loss_first=round(losses[0], 6), loss_last=round(losses[-1], 6))
    if a.gemm:
        g = {f"{str(dt)[6:]}_{'x'.join(map(str, s))}": gemm_gflops(torch, dt, *s)
             for dt in (torch.float32, torch.bfloat16) for s in ((2048, 512, 512), (2048, 2048, 2048))}
        rec.update(gemm_gflops=g, mfu_vs_best_gemm=round(tok_s * flops / 1e9 / max(g.values()), 3))
    if a.profile:
        rec["profile_share"] = profile_shares(torch, lambda: step(tok[-1, :, :-1], tok[-1, :, 1:]), a.profile)
    print(json.dumps(rec))


main()
