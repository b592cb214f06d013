"""MoE transformer in plain PyTorch, the way a careful user would write it by hand.

Three ways to run the experts: "loop" (one matmul an expert), "grouped" (F.grouped_mm), "fn" (own autograd function).
T tokens, d model, E experts, K experts a token, h expert width, V vocabulary, B batch, S sequence.
"""
import torch, torch.nn as nn, torch.nn.functional as F

AUX, ZL = 0.01, 1e-4  # coefficients of the load-balancing and the router z-loss


def sort_by_expert(idx, E):
    """idx (T,K) -> order of the T*K slots by expert, its inverse, group ends."""
    flat = idx.reshape(-1)
    order = flat.argsort(stable=True)
    inv = torch.empty_like(order)
    inv[order] = torch.arange(order.numel())
    return order, inv, torch.bincount(flat, minlength=E).cumsum(0)


def act_fwd(gu):
    g, u = gu.chunk(2, -1)
    return F.silu(g) * u


def act_bwd(gu, ga):
    g, u = gu.chunk(2, -1)
    sg = torch.sigmoid(g)
    sl = g * sg
    return torch.cat(((sg + sl * (1 - sg)).mul_(ga).mul_(u), ga * sl), -1)


class ExpertsFn(torch.autograd.Function):
    """Dispatch, SwiGLU experts and combine in one, with a hand-written backward (mm with out=)."""
    act = (act_fwd, act_bwd)

    @staticmethod
    def forward(ctx, x, w1, w2, idx, p):  # x (T,d)  w1 (E,2h,d)  w2 (E,d,h)  idx,p (T,K)
        T, K = idx.shape
        order, inv, ends = sort_by_expert(idx, w1.shape[0])
        ends = ends.tolist()
        xs = x.index_select(0, order // K)
        gu = x.new_empty(T * K, w1.shape[1])
        y = x.new_empty(T * K, x.shape[1])
        s = 0
        for e, t in enumerate(ends):
            if t > s:
                torch.mm(xs[s:t], w1[e].t(), out=gu[s:t])
            s = t
        a = ExpertsFn.act[0](gu)
        s = 0
        for e, t in enumerate(ends):
            if t > s:
                torch.mm(a[s:t], w2[e].t(), out=y[s:t])
            s = t
        yt = y.index_select(0, inv).view(T, K, -1)
        out = torch.bmm(p.to(y.dtype).unsqueeze(1), yt).squeeze(1)
        ctx.save_for_backward(xs, w1, w2, p, gu, a, yt, order, inv)
        ctx.ends = ends
        return out

    @staticmethod
    def backward(ctx, go):
        xs, w1, w2, p, gu, a, yt, order, inv = ctx.saved_tensors
        T, K = p.shape
        go = go.contiguous()
        gp = torch.bmm(yt, go.unsqueeze(2)).squeeze(2).to(p.dtype)
        gy = go.index_select(0, order // K).mul_(p.reshape(-1)[order].to(go.dtype).unsqueeze(1))
        ga, gw1, gw2 = torch.empty_like(a), torch.empty_like(w1), torch.empty_like(w2)
        s = 0
        for e, t in enumerate(ctx.ends):
            torch.mm(gy[s:t].t(), a[s:t], out=gw2[e]) if t > s else gw2[e].zero_()
            if t > s:
                torch.mm(gy[s:t], w2[e], out=ga[s:t])
            s = t
        ggu = ExpertsFn.act[1](gu, ga)
        gxs = torch.empty_like(xs)
        s = 0
        for e, t in enumerate(ctx.ends):
            torch.mm(ggu[s:t].t(), xs[s:t], out=gw1[e]) if t > s else gw1[e].zero_()
            if t > s:
                torch.mm(ggu[s:t], w1[e], out=gxs[s:t])
            s = t
        gx = gxs.index_select(0, inv).view(T, K, -1).sum(1)
        return gx, gw1, gw2, None, gp


class PlainMoE(nn.Module):
    def __init__(self, c, mode, compiled):
        super().__init__()
        self.c, self.mode, self.fn = c, mode, ExpertsFn.apply
        if compiled:  # the compiler would break the graph inside; compile the elementwise parts alone
            ExpertsFn.act = (torch.compile(act_fwd), torch.compile(act_bwd))
            self.fn = torch._dynamo.disable(ExpertsFn.apply)
        self.router = nn.Parameter(torch.randn(c.experts, c.d) * 0.02)
        self.w1 = nn.Parameter(torch.randn(c.experts, 2 * c.hidden, c.d) * 0.02)
        self.w2 = nn.Parameter(torch.randn(c.experts, c.d, c.hidden) * 0.02)

    def forward(self, x):
        c = self.c
        logits = F.linear(x, self.router).float()
        prob = logits.softmax(-1)
        p, idx = prob.topk(c.topk, -1)
        p = p / p.sum(-1, keepdim=True)
        f = torch.zeros(c.experts).scatter_add_(0, idx.reshape(-1), torch.ones(idx.numel())) / idx.numel()
        aux = AUX * c.experts * (f * prob.mean(0)).sum() + ZL * logits.logsumexp(-1).square().mean()
        return self.experts(x, p, idx), aux

    def experts(self, x, p, idx):
        cast = (lambda t: t.to(torch.bfloat16)) if torch.is_autocast_enabled("cpu") else (lambda t: t)
        if self.mode == "fn":
            return self.fn(cast(x), cast(self.w1), cast(self.w2), idx, p)
        T, K = idx.shape
        order, inv, ends = sort_by_expert(idx, self.c.experts)
        xs = x[order // K]
        if self.mode == "grouped":
            w1, w2, xs, offs = cast(self.w1), cast(self.w2), cast(xs), ends.int()
            y = F.grouped_mm(act_fwd(F.grouped_mm(xs, w1.transpose(1, 2), offs=offs)), w2.transpose(1, 2), offs=offs)
        else:
            parts = xs.split(torch.diff(ends, prepend=ends.new_zeros(1)).tolist())
            y = torch.cat([F.linear(act_fwd(F.linear(xe, a)), b) for xe, a, b in zip(parts, self.w1.unbind(0), self.w2.unbind(0))])
        return (y[inv].view(T, K, -1) * p.to(y.dtype).unsqueeze(-1)).sum(1)


class Block(nn.Module):
    def __init__(self, c, moe):
        super().__init__()
        self.c, self.hd, self.moe = c, c.d // c.heads, moe
        self.n1, self.n2 = nn.RMSNorm(c.d, eps=1e-6), nn.RMSNorm(c.d, eps=1e-6)
        self.qn, self.kn = nn.RMSNorm(self.hd, eps=1e-6), nn.RMSNorm(self.hd, eps=1e-6)
        self.qkv = nn.Linear(c.d, (c.heads + 2 * c.kv) * self.hd, bias=False)
        self.o = nn.Linear(c.heads * self.hd, c.d, bias=False)

    def forward(self, x, cos, sin):
        B, S, _ = x.shape
        c, hd = self.c, self.hd
        q, k, v = self.qkv(self.n1(x)).view(B, S, -1, hd).split([c.heads, c.kv, c.kv], 2)
        q, k = self.qn(q), self.kn(k)
        rot = lambda t: t * cos + torch.cat((-t[..., hd // 2:], t[..., : hd // 2]), -1) * sin
        q, k, v = rot(q).transpose(1, 2), rot(k).transpose(1, 2), v.transpose(1, 2)
        r = c.heads // c.kv
        a = F.scaled_dot_product_attention(q, k.repeat_interleave(r, 1), v.repeat_interleave(r, 1), is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, -1))
        y, aux = self.moe(self.n2(x).view(B * S, -1))
        return x + y.view_as(x), aux


class Plain(nn.Module):
    """make_moe() -> module (T,d) -> ((T,d), auxiliary loss)."""

    def __init__(self, c, make_moe):
        super().__init__()
        self.c = c
        self.emb = nn.Embedding(c.vocab, c.d)
        self.blocks = nn.ModuleList(Block(c, make_moe()) for _ in range(c.layers))
        self.nf = nn.RMSNorm(c.d, eps=1e-6)
        self.head = nn.Linear(c.d, c.vocab, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
        hd = c.d // c.heads
        f = torch.outer(torch.arange(c.seq).float(), 1e4 ** (-torch.arange(0, hd, 2).float() / hd))
        f = torch.cat((f, f), -1)[None, :, None]
        self.cs = (f.cos(), f.sin())

    def forward(self, tok, lab):
        x = self.emb(tok)
        cos, sin = (t.to(x.dtype) for t in self.cs)
        aux = 0.0
        for b in self.blocks:
            x, a = b(x, cos, sin)
            aux = aux + a
        logits = self.head(self.nf(x))
        return F.cross_entropy(logits.view(-1, self.c.vocab).float(), lab.reshape(-1)) + aux
