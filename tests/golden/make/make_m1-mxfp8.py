"""MXFP8 (E4M3 elements, E8M0 scales, block 32) quantisation vectors from code that we did not write.

ao_floor / ao_rceil / ao_ceil : torchao 0.18 prototype.mx_formats to_mx / to_dtype (eager, CPU)
olmo_floor / olmo_rceil       : OLMo-core 3.0.0 kernels.mxfp8_utils._quantize_to_mxfp8_torch (default mode there: rceil)
cast_*                        : plain fp32 -> e4m3fn casts of single values by ml_dtypes, gfloat (OCP, saturating) and torch
"""
import json, os, sys
import numpy as np, torch, ml_dtypes, gfloat
from gfloat.formats import format_info_ocp_e4m3
import importlib.metadata as im
from safetensors.torch import save_file, load_file
from torchao.prototype.mx_formats.mx_tensor import to_mx, to_dtype, ScaleCalculationMode as M
from olmo_core.kernels.mxfp8_utils import _quantize_to_mxfp8_torch

D = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "m1-mxfp8")
os.makedirs(D, exist_ok=True)
rng = np.random.default_rng(1234)
rows, names = [], []


def add(name, v):
    v = np.asarray(v, dtype=np.float32)
    assert v.shape == (32,), v.shape
    rows.append(v); names.append(name)


def with_max(m, base=None, neg=False):
    """a block whose largest magnitude is m (at a moving position), the rest random below it"""
    v = (rng.uniform(-1, 1, 32) * 0.9 * float(m)).astype(np.float32) if base is None else base.copy()
    v[rng.integers(32)] = -m if neg else m
    return v


for e in (-100, -60, -20, -8, -1, 0, 1, 8, 20, 60, 100):
    add(f"normal*2^{e}", rng.standard_normal(32).astype(np.float32) * np.float32(2.0 ** e))
for i in range(16):
    add(f"wide_range_{i}", (rng.standard_normal(32) * 2.0 ** rng.integers(-18, 3, 32)).astype(np.float32))
add("zeros", np.zeros(32)); add("neg_zeros", -np.zeros(32)); z = np.zeros(32); z[5] = 1; add("one_hot_1", z)
sub = np.array([2.0 ** -149 * k for k in range(32)], dtype=np.float32); add("fp32_subnormals_small", sub)
add("fp32_subnormal_max", np.full(32, np.float32(1.1754942e-38))); add("fp32_min_normal", np.full(32, np.float32(2.0 ** -126)))
for e in (-149, -140, -134, -133, -130, -127, -126, -120, -119, -118):
    add(f"absmax_2^{e}", with_max(np.float32(2.0 ** e), base=np.zeros(32, np.float32)))
F = np.float32(3.4028235e38)
add("fp32_max", with_max(F)); add("fp32_max_all", np.full(32, F)); add("neg_fp32_max", with_max(F, neg=True))
for e in (-20, -3, 0, 7, 40, 100):
    for m, n in ((1.0, "1"), (1.5, "1.5"), (1.75, "1.75"), (1.875, "1.875")):
        b = np.float32(m * 2.0 ** e)
        for t, x in (("", b), ("+ulp", np.nextafter(b, np.float32(np.inf))), ("-ulp", np.nextafter(b, np.float32(0)))):
            add(f"absmax_{n}*2^{e}{t}", with_max(x, neg=bool(rng.integers(2))))
for e in (-12, 0, 5):  # ties of the e4m3 grid under a block scale of 2^e (absmax 448*2^e keeps both rules at that scale)
    v = np.array([448, 17, 18, 19, 21, 23, 25, 27, 29, 31, 1 + 1 / 16, 1 + 3 / 16, 1 + 5 / 16, 1.9375, 0.0625 + 2 ** -8, 2 ** -6, 2 ** -6 - 2 ** -10,
                  2 ** -7, 2 ** -9, 2 ** -10, 2 ** -10 * 1.0001, 3 * 2 ** -10, 5 * 2 ** -10, 2 ** -11, 240, 248, 256, 264, 272, 432, 440, 447]) * 2.0 ** e
    v[::2] *= -1
    add(f"e4m3_ties*2^{e}", v)
inf, nan = np.inf, np.nan
for n, xs in (("inf", [inf]), ("neg_inf", [-inf]), ("nan", [nan]), ("inf_and_nan", [inf, nan]), ("both_inf", [inf, -inf])):
    v = rng.standard_normal(32).astype(np.float32); v[3:3 + len(xs)] = xs; add("has_" + n, v)
add("all_inf", np.full(32, inf)); add("all_nan", np.full(32, nan))

X = torch.tensor(np.stack(rows))
T = {"input": X}
for k, mode in (("floor", M.FLOOR), ("rceil", M.RCEIL), ("ceil", M.CEIL)):
    s, q = to_mx(X.clone(), torch.float8_e4m3fn, 32, mode)
    T[f"ao_{k}/scale"] = s.view(torch.uint8).reshape(-1).clone()
    T[f"ao_{k}/q"] = q.view(torch.uint8).clone()
    T[f"ao_{k}/dequant"] = to_dtype(q, s, torch.float8_e4m3fn, 32, torch.float32)
for k in ("floor", "rceil"):
    q, s = _quantize_to_mxfp8_torch(X.clone(), block_size=32, scale_mode=k)
    T[f"olmo_{k}/scale"] = s.view(torch.uint8).reshape(-1).clone()
    T[f"olmo_{k}/q"] = q.view(torch.uint8).clone()
    T[f"olmo_{k}/dequant"] = q.float() * s.reshape(-1, 1).float()

c = np.concatenate([np.array([0, -0.0, 448, 449, 455.99, 456, 464, 464.1, 480, 512, 1e30, inf, -inf, nan, -448, -464.1, 2 ** -6, 2 ** -9, 2 ** -10,
    1.0001 * 2 ** -10, 2 ** -11, 3 * 2 ** -10], dtype=np.float32), rng.standard_normal(200).astype(np.float32) * 30,
    (rng.standard_normal(100) * 2 ** -8).astype(np.float32)])
T["cast/input"] = torch.tensor(c)
T["cast/ml_dtypes"] = torch.tensor(c.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
T["cast/torch"] = torch.tensor(c).to(torch.float8_e4m3fn).view(torch.uint8)
fi = format_info_ocp_e4m3
def enc(v, sat):
    return gfloat.encode_float(fi, gfloat.round_float(fi, float(v), sat=sat))
T["cast/gfloat_sat"] = torch.tensor([enc(v, True) for v in c], dtype=torch.uint8)
T["cast/gfloat_nosat"] = torch.tensor([enc(v, False) for v in c], dtype=torch.uint8)

# exact rules (rational arithmetic) with gfloat's rounding: the tie-breaker where the libraries' float32 log2 is off by one
from fractions import Fraction
P2 = [Fraction(2) ** e for e in range(-127, 128)]
def exact_scale(v, rule):
    a = Fraction(float(np.abs(v).max()))
    if rule == "rceil":
        return next((i for i, p in enumerate(P2) if p * 448 >= a), 254)
    return max((i for i, p in enumerate(P2) if p * 256 <= a), default=0)
fin = np.array([np.isfinite(r).all() for r in rows])
T["finite_block"] = torch.tensor(fin.astype(np.uint8))
for k in ("floor", "rceil"):
    sc = np.array([exact_scale(r, k) if f else 255 for r, f in zip(rows, fin)], dtype=np.uint8)
    q = np.array([[enc(np.clip(np.ldexp(np.float64(x), 127 - int(b)), -448, 448), True) for x in r] if f else [0x7F] * 32 for r, f, b in zip(rows, fin, sc)], dtype=np.uint8)
    T[f"exact_{k}/scale"], T[f"exact_{k}/q"] = torch.tensor(sc), torch.tensor(q)
    T[f"exact_{k}/dequant"] = torch.tensor(np.ldexp(q.view(ml_dtypes.float8_e4m3fn).astype(np.float64), sc.astype(np.int64)[:, None] - 127).astype(np.float32))

# cross-check the block results with ml_dtypes + exact scaling, for finite blocks
def check(tag):
    s, q = T[tag + "/scale"].numpy(), T[tag + "/q"].numpy()
    bad = []
    for i, n in enumerate(names):
        if not np.isfinite(rows[i]).all() or s[i] == 255:
            continue
        y = np.clip(rows[i].astype(np.float64) * 2.0 ** (127 - int(s[i])), -448, 448)
        w = np.array([enc(v, True) for v in y], dtype=np.uint8)
        if not np.array_equal(w & 0x7F, q[i] & 0x7F) or not np.array_equal(np.signbit(rows[i]) & (w & 0x7F != 0), (q[i] >> 7 == 1) & (q[i] & 0x7F != 0)):
            bad.append(n)
    return bad
diff = lambda a, b: [n for i, n in enumerate(names) if T[a + "/scale"][i] != T[b + "/scale"][i] or not torch.equal(T[a + "/q"][i], T[b + "/q"][i])]
meta = dict(
    versions={p: im.version(p) for p in ("torch", "torchao", "ai2-olmo-core", "ml-dtypes", "gfloat", "numpy")}, python=sys.version.split()[0], seed=1234,
    block_size=32, element="E4M3FN (OCP e4m3, max 448, no inf, NaN = 0x7f/0xff)", rows=names,
    what={"input": "[N,32] fp32, one block a row; rows[] names each", "*/scale": "[N] E8M0 bytes: value 2^(b-127), 255 = NaN", "*/q": "[N,32] E4M3 bytes",
          "*/dequant": "[N,32] fp32 as the library dequantises", "cast/*": "single-value casts fp32 -> e4m3fn bytes, no block scale"},
    rules={"floor": "OCP MX v1.0: scale exponent = floor(log2(absmax)) - 8, elements saturate at 448 (absmax in (1.75,2)*2^e clips)",
           "rceil": "smallest power of two >= absmax/448 (NVIDIA cuBLAS/cvt.rp.satfinite.ue8m0x2): no clipping",
           "ceil": "torchao CEIL: ceil(log2(absmax)) - 8"},
    rows_where_quantised_bytes_are_not_exact_rounding_under_their_scale={t: check(t) for t in ("ao_floor", "ao_rceil", "ao_ceil", "olmo_floor", "olmo_rceil")},
    rows_where_libraries_differ={f"{a} vs {b}": diff(a, b) for a, b in (("ao_floor", "olmo_floor"), ("ao_rceil", "olmo_rceil"), ("ao_floor", "exact_floor"), ("ao_rceil", "exact_rceil"), ("olmo_floor", "exact_floor"), ("olmo_rceil", "exact_rceil"))},
    findings=["exact_*: finite blocks only; scale by rational arithmetic, rounding to nearest even by gfloat. Use these as the reference; use ao_*/olmo_* to see what libraries do.",
              "ao_rceil and olmo_rceil both take ceil(log2(absmax/448)) in float32, which is one too small when absmax is 1 ulp above 1.75*2^e: they then clip the maximum to 448*scale. Exact arithmetic (and the hardware instruction) gives the next exponent.",
              "olmo_floor takes floor(log2(absmax)) in float32, one too large 1 ulp below 2^e (and at FLT_MAX); torchao's floor reads the exponent bits and is exact.",
              "scale byte 0 (2^-127, absmax below about 2^-118): torchao FLOOR/CEIL divide by 2^-126 and RCEIL multiplies by 1, yet store byte 0; their q bytes are not the rounding under the stored scale there. olmo_* are consistent.",
              "NaN in a block: torchao gives scale 255 (floor keeps the finite elements' bytes, rceil makes all 32 NaN); OLMo-core maps NaN to 0 with scale byte 0 and saturates the rest. Inf: torchao floor 247, rceil 254, OLMo-core 254; the infinite element becomes +-448 in all.",
              "zero block: scale byte 0, q 0 (sign of -0 kept) in all.",
              "casts: torch 2.15 saturates above 464 to 448 (older torch gave NaN); ml_dtypes gives NaN from 464.0 exclusive up (464 rounds to even 448)."],
    cast_disagreements={f"{a} vs {b}": [float(x) for x in c[(T["cast/" + a] != T["cast/" + b]).numpy()]][:20] for a, b in
                        (("torch", "ml_dtypes"), ("gfloat_sat", "torch"), ("gfloat_nosat", "ml_dtypes"))},
    tensors={k: [str(v.dtype)[6:], list(v.shape)] for k, v in T.items()})
save_file({k: v.contiguous() for k, v in T.items()}, os.path.join(D, "golden.safetensors"))
json.dump(meta, open(os.path.join(D, "golden.json"), "w"), indent=1, allow_nan=True)
R = load_file(os.path.join(D, "golden.safetensors"))
s, q = to_mx(R["input"].clone(), torch.float8_e4m3fn, 32, M.RCEIL)
assert torch.equal(s.view(torch.uint8).reshape(-1), R["ao_rceil/scale"]) and torch.equal(q.view(torch.uint8), R["ao_rceil/q"])
print(len(names), "blocks;", json.dumps({k: meta[k] for k in ("rows_where_libraries_differ", "cast_disagreements", "rows_where_quantised_bytes_are_not_exact_rounding_under_their_scale")}, indent=1))
