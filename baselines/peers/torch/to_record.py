#!/usr/bin/env python3
"""JSON lines of run.sh (files, or stdin) -> CSV on stdout (RFC 4180, LF line ends).

  to_record.py runs  [FILE...]   rows of the suite's runs.csv, kind measured, one row a launch in the order read; tok_s is that
                                 of the median step, as in the study peer-cpu
  to_record.py sweep [FILE...]   rows of a sweep: one a launch, with CPU and versions
  to_record.py rank  [FILE...]   impl,dtype,n,tok_s,steady: median of the launches, fastest first; failed ones left out, and
                                 disturbed ones where the setting has a steady one
"""
import argparse, csv, fileinput, json, statistics, sys

FACTORS = ("impl",)
DISTURBED_PCT = 5  # CPU time of other processes during the timed steps above which a launch is called not steady
RUNS = ("schema,run_id,study,scale,case,kind,system,device_kind,devices,ranks,nodes," + ",".join(FACTORS) + ",model,shard,ep,ep_transport,"
        "pp,pp_schedule,recompute,precision,kernel,routing,capacity_factor,lb_def,launch,order,status,seed,start_utc,warmup_steps,"
        "steps,time_s,tokens,tok_s,tok_s_gpu,step_ms_p50,step_ms_p95,step_ms_p99,flop_token,mfu_olmo3_pct,mfu_peak_flops,bound_pct,"
        "peak_mem_gib,mem_params_gib,mem_grads_gib,mem_optim_gib,mem_act_gib,mem_comm_gib,mem_work_gib,mem_reserved_gib,"
        "wire_bytes_step,host_waits_step,loss_last,drop_rate,imbalance,straggler,not_steady,throttled,calibration,comparability,"
        "nodelist").split(",")
SWEEP = ("schema,shape,impl,dtype,threads,launch,status,tok_s,step_ms_p50,step_ms_min,steps,warmup_steps,peak_rss_mib,loss_first,"
         "loss_last,tcmalloc,others_cpu_pct,cpu,isa,torch,transformers,python,start_utc,reason").split(",")


def quantile(values, q):
    """Linear between order statistics, as numpy's default."""
    v = sorted(values)
    x = q * (len(v) - 1)
    i = int(x)
    return v[i] + (x - i) * (v[min(i + 1, len(v) - 1)] - v[i])


def runs_row(r, launch, order, a):
    row = dict(schema="moemark/runs/1", run_id=a.run_id, study=a.study, scale=a.scale, kind="measured", system=a.system,
               case=f"{a.study} %model={r['shape']} %impl={r['impl']} %precision={r['dtype']}",
               device_kind="cpu", devices=1, ranks=1, nodes=1, impl=r["impl"], model=r["shape"], precision=r["dtype"],
               launch=launch, order=order, status=r["status"])
    if r["status"] == "ok":
        ms = r["step_ms"]
        time_s, tokens = sum(ms) / 1e3, r["tokens_step"] * len(ms)
        row.update(kernel="torch " + r["torch"], routing="learned", seed=r["seed"], start_utc=r["start_utc"],
                   warmup_steps=r["warmup_steps"], steps=len(ms), time_s=round(time_s, 6), tokens=tokens, tok_s=r["tok_s"],
                   tok_s_gpu=r["tok_s"], flop_token=r["flops_per_token"], peak_mem_gib=round(r["peak_rss_mib"] / 1024, 4),
                   loss_last=r["loss_last"], drop_rate=0, not_steady=int(disturbed(r)), **{f"step_ms_p{p}": round(quantile(ms, p / 100), 3) for p in (50, 95, 99)})
    return row


def sweep_row(r, launch, order, a):
    row = {k: v for k, v in r.items() if k in SWEEP}
    row.update(schema="moemark/peer-sweep/1", launch=launch)
    if r["status"] == "ok":
        row.update(step_ms_p50=round(statistics.median(r["step_ms"]), 3), step_ms_min=min(r["step_ms"]), isa=" ".join(r["isa"]),
                   tcmalloc="yes" if r["tcmalloc"] else "no")
    return row


def disturbed(r):
    return r["others_cpu_pct"] > DISTURBED_PCT


def rank(records):
    by = {}
    for r in records:
        if r["status"] == "ok":
            by.setdefault((r["impl"], r["dtype"]), []).append(r)
    rows = []
    for (impl, dtype), rs in by.items():
        steady = [r["tok_s"] for r in rs if not disturbed(r)]
        v = steady or [r["tok_s"] for r in rs]
        rows.append(dict(impl=impl, dtype=dtype, n=len(v), tok_s=statistics.median(v), steady="yes" if steady else "no"))
    return sorted(rows, key=lambda r: -r["tok_s"])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("format", choices=["runs", "sweep", "rank"])
    ap.add_argument("files", nargs="*", help="JSON lines; default stdin")
    ap.add_argument("--study", default="peer-cpu")
    ap.add_argument("--scale", default="local")
    ap.add_argument("--system", default="local")
    ap.add_argument("--run-id", default="")
    ap.add_argument("--no-header", action="store_true")
    a = ap.parse_args()
    records = []
    for n, line in enumerate(fileinput.input(a.files), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
            records[-1]["impl"], records[-1]["dtype"], records[-1]["status"]
        except (ValueError, KeyError, TypeError) as e:
            sys.exit(f"{fileinput.filename()}:{fileinput.filelineno()}: error: not a line of run.sh ({e})")
    if a.format == "rank":
        columns, rows = ["impl", "dtype", "n", "tok_s", "steady"], rank(records)
    else:
        columns, make = (RUNS, runs_row) if a.format == "runs" else (SWEEP, sweep_row)
        seen, rows = {}, []
        for order, r in enumerate(records, 1):
            key = (r["impl"], r["shape"], r["dtype"])
            seen[key] = seen.get(key, 0) + 1
            rows.append(make(r, seen[key], order, a))
    w = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    if not a.no_header:
        w.writeheader()
    w.writerows(rows)


main()
