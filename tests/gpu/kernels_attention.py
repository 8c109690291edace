#!/usr/bin/env python3
"""Attention of libtrkernels.so on a GPU: values, LSE and gradients against float64 in PyTorch, and times beside cuDNN.

    kernels_attention.py [-t] [--only check|large|time] [--json FILE] LIBRARY        LIBRARY: .libs/libtrkernels.so

Prints TAP. With -t also times, as comments in it, and in the JSON. The largest error of bf16 may be twice that of
the same arithmetic in PyTorch's bf16, plus one rounding of the largest value. Every tensor is a slice of a larger one
full of NaN: what is read outside shows in the result, what is written outside shows in what is left.

Exit code: 0 all right (or no PyTorch with a GPU), 1 something is wrong.
"""
import argparse
import ctypes
import itertools
import json
import os
import random
import statistics
import sys

try:
    import torch
except ImportError:
    torch = None

F32, BF16 = 0, 1
OK, ERR_ARGUMENT, ERR_UNSUPPORTED, ERR_MEMORY = range(4)


# ---- The library ----------------------------------------------------------------------------------------------------

class Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("batch", "row", "head")]


class Attention(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_size_t) for name in ("batch", "heads", "kv_heads", "sq", "sk", "d")]
                + [("causal", ctypes.c_bool), ("scale", ctypes.c_float), ("datatype", ctypes.c_int)]
                + [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")]
                + [(name + "_strides", Strides) for name in ("q", "k", "v", "o")])


class Backward(ctypes.Structure):
    _fields_ = ([("forward", Attention)]
                + [(name, ctypes.c_void_p) for name in ("d_o", "dq", "dk", "dv")]
                + [(name + "_strides", Strides) for name in ("d_o", "dq", "dk", "dv")]
                + [("deterministic", ctypes.c_bool), ("workspace", ctypes.c_void_p),
                   ("workspace_bytes", ctypes.c_size_t)])


def load(path):
    library = ctypes.CDLL(path)
    library.tk_last_error.restype = ctypes.c_char_p
    library.tk_attention_forward.argtypes = [ctypes.POINTER(Attention), ctypes.c_void_p]
    library.tk_attention_backward.argtypes = [ctypes.POINTER(Backward), ctypes.c_void_p]
    library.tk_attention_backward_workspace.argtypes = [ctypes.POINTER(Backward), ctypes.POINTER(ctypes.c_size_t)]
    library.tk_attention_describe.argtypes = [ctypes.POINTER(Attention), ctypes.c_char_p, ctypes.c_size_t]
    return library


class Call:
    """A call on tensors [batch][row][head][d] of any strides, the last one 1."""

    def __init__(self, library, q, k, v, o, lse, causal, scale=0.0):
        self.library = library
        batch, sq, heads, d = q.shape
        self.a = Attention(batch=batch, heads=heads, kv_heads=k.shape[2], sq=sq, sk=k.shape[1], d=d, causal=causal,
                           scale=scale, datatype=BF16 if q.dtype == torch.bfloat16 else F32, lse=lse.data_ptr())
        for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
            put_tensor(self.a, name, tensor)
        self.workspace = None

    def describe(self):
        text = ctypes.create_string_buffer(128)
        self.expect(self.library.tk_attention_describe(self.a, text, 128))
        return text.value.decode()

    def expect(self, status, wanted=OK):
        if status != wanted:
            raise Wrong(f"status {status}, not {wanted}: {self.library.tk_last_error().decode()}")

    def forward(self, wanted=OK):
        self.expect(self.library.tk_attention_forward(self.a, stream()), wanted)

    def set_backward(self, d_o, dq, dk, dv, deterministic):
        self.b = Backward(forward=self.a, deterministic=deterministic)
        for name, tensor in (("d_o", d_o), ("dq", dq), ("dk", dk), ("dv", dv)):
            put_tensor(self.b, name, tensor)
        size = ctypes.c_size_t()
        self.expect(self.library.tk_attention_backward_workspace(self.b, size))
        # all ones: NaN in f32, so that what is read before it is written shows
        self.workspace = torch.full((max(size.value, 1),), 255, dtype=torch.uint8, device="cuda")
        self.b.workspace, self.b.workspace_bytes = self.workspace.data_ptr(), size.value

    def backward(self, wanted=OK):
        self.expect(self.library.tk_attention_backward(self.b, stream()), wanted)


def put_tensor(structure, name, tensor):
    setattr(structure, name, tensor.data_ptr())
    batch, row, head, last = tensor.stride()
    assert last == 1 or tensor.shape[3] == 1
    setattr(structure, name + "_strides", Strides(batch, row, head))


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Wrong(Exception):
    pass


# ---- Tensors --------------------------------------------------------------------------------------------------------

class Slice:
    """A tensor [batch][row][head][d] inside a larger one that is NaN elsewhere. `layout`: order in memory.

    blhd: rows, then heads; bhld: heads, then rows; both with a row and a head to spare. odd: rows of d + 1 elements.
    """

    def __init__(self, layout, batch, rows, heads, d, dtype, values=True):
        width = d + 1 if layout == "odd" else d
        if layout == "bhld":
            self.whole = torch.full((batch, heads + 2, rows + 2, width), float("nan"), device="cuda", dtype=dtype)
            self.t = self.whole[:, 1:heads + 1, 1:rows + 1, :d].transpose(1, 2)
        else:
            self.whole = torch.full((batch, rows + 2, heads + 2, width), float("nan"), device="cuda", dtype=dtype)
            self.t = self.whole[:, 1:rows + 1, 1:heads + 1, :d]
        if values:
            self.t.copy_(torch.randn(batch, rows, heads, d, device="cuda"))

    def has_kept_outside(self):
        left = self.whole.clone()
        view = left.as_strided(self.t.shape, self.t.stride(), self.t.storage_offset())
        view.fill_(float("nan"))
        return bool(left.isnan().all())


def of_product(batch, rows, heads, kv_heads, d, values=True):
    """Q, K and V as slices of what one matrix product gives: [batch][row][(heads + 2 kv_heads) d]."""
    whole = torch.randn(batch, rows, heads + 2 * kv_heads, d, device="cuda").to(torch.bfloat16)
    if not values:
        whole.fill_(float("nan"))
    return whole[:, :, :heads], whole[:, :, heads:heads + kv_heads], whole[:, :, heads + kv_heads:]


# ---- The reference --------------------------------------------------------------------------------------------------

def reference(q, k, v, d_o, causal, dtype, scale=0.0):
    """O, LSE, dQ, dK, dV by the formula, computed in `dtype`; a row that sees no key gives 0 and -inf."""
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in (q, k, v))
    group, sq, sk = q.shape[2] // k.shape[2], q.shape[1], k.shape[1]
    keys, values = (t.repeat_interleave(group, 2).permute(0, 2, 1, 3) for t in (k, v))
    scores = q.permute(0, 2, 1, 3) @ keys.transpose(-1, -2) * (scale or q.shape[3] ** -0.5)
    dead = torch.zeros(sq, 1, dtype=torch.bool, device=q.device)
    if causal:
        unseen = torch.ones(sq, sk, dtype=torch.bool, device=q.device).triu(1 + sk - sq)
        dead = unseen.all(-1, keepdim=True)
        scores = scores.masked_fill(unseen & ~dead, float("-inf"))
    weights = torch.softmax(scores, -1).masked_fill(dead, 0)
    o = (weights @ values).permute(0, 2, 1, 3)
    lse = torch.logsumexp(scores.detach(), -1).masked_fill(dead[:, 0], float("-inf"))
    gradients = torch.autograd.grad(o, (q, k, v), d_o.to(dtype)) if d_o is not None else (None,) * 3
    return (o.detach(), lse) + gradients


def compare(name, got, exact, peer, errors):
    """`got` against float64, beside what PyTorch's own arithmetic (`peer`) is off by."""
    if exact.numel() == 0:
        return
    off, allowed = (got.double() - exact).abs().max().item(), (peer.double() - exact).abs().max().item()
    rounding = 2.0 ** -9 if got.dtype == torch.bfloat16 else 2.0 ** -22
    largest = exact.abs().max().item()
    # f32: the plain path adds row after row, which loses more than PyTorch's sums in blocks
    times = 2 if got.dtype == torch.bfloat16 else 4
    bound = times * allowed + rounding * largest + (1e-4 if got.dtype == torch.bfloat16 else 2e-5)
    errors.append((name, off, allowed))
    if not off <= bound:
        raise Wrong(f"{name} is off by {off:.3g}, PyTorch's by {allowed:.3g}; at most {bound:.3g} is right")


def compare_lse(got, exact):
    finite = torch.isfinite(exact)
    if not bool((got[~finite] == float("-inf")).all()):
        raise Wrong("the LSE of a row without keys is not -inf")
    off = (got[finite].double() - exact[finite]).abs() - 1e-5 * exact[finite].abs()
    if finite.any() and not off.max().item() <= 2e-4:
        raise Wrong(f"LSE is off by {off.max().item():.3g}")


# ---- Checks ---------------------------------------------------------------------------------------------------------

# (sq, sk): flash-attention's own, with tails on both sides, and a length that a tile divides
PAIRS = [(1, 1), (64, 128), (128, 192), (239, 1), (799, 3), (113, 203), (113, 128), (128, 217), (108, 256), (640, 128),
         (1023, 1024), (1024, 1023), (4096, 4096)]
SHORT_PAIRS = [(1, 1), (64, 128), (113, 203), (799, 3), (257, 255)]


class Case:
    def __init__(self, sq, sk, kv_heads, d, causal, layout="blhd", dtype="bfloat16", heads=6, batch=2):
        self.sq, self.sk, self.heads, self.kv_heads, self.d, self.causal = sq, sk, heads, kv_heads, d, causal
        self.layout, self.dtype, self.batch = layout, getattr(torch, dtype), batch

    def __str__(self):
        return (f"attention {self.sq}x{self.sk} heads {self.heads}/{self.kv_heads} d {self.d} "
                f"{'causal' if self.causal else 'full'} {self.layout} {str(self.dtype)[6:]}")


def queries_of(case, values=True):
    return Slice(case.layout, case.batch, case.sq, case.heads, case.d, case.dtype, values)


def keys_of(case, values=True):
    return Slice(case.layout, case.batch, case.sk, case.kv_heads, case.d, case.dtype, values)


def check_path(call, case):
    fast = (torch.cuda.get_device_capability() == (9, 0) and case.dtype == torch.bfloat16 and case.layout != "odd"
            and case.sk > 0)
    if call.describe().startswith("sm90") != fast:
        raise Wrong(f"the path is \"{call.describe()}\"; the fast one is {'' if fast else 'not '}meant")


def check_case(library, case):
    q, k, v, d_o, o = queries_of(case), keys_of(case), keys_of(case), queries_of(case), queries_of(case, False)
    lse = torch.full((case.batch, case.heads, case.sq), float("nan"), device="cuda")
    exact = reference(q.t, k.t, v.t, d_o.t, case.causal, torch.float64)
    peer = reference(q.t, k.t, v.t, d_o.t, case.causal, case.dtype)
    call, errors, outputs = Call(library, q.t, k.t, v.t, o.t, lse, case.causal), [], [o]
    check_path(call, case)
    call.forward()
    compare("O", o.t, exact[0], peer[0], errors)
    compare_lse(lse, exact[1])
    runs = []
    for deterministic in (False, True, True):
        gradients = [queries_of(case, False), keys_of(case, False), keys_of(case, False)]
        call.set_backward(d_o.t, *(g.t for g in gradients), deterministic)
        call.backward()
        for i, name in enumerate(("dQ", "dK", "dV")):
            compare(name, gradients[i].t, exact[2 + i], peer[2 + i], errors)
        runs.append(gradients)
        outputs += gradients
    for i, name in enumerate(("dQ", "dK", "dV")):
        if not torch.equal(runs[1][i].t, runs[2][i].t):
            raise Wrong(f"deterministic {name} differs from run to run")
    if not all(output.has_kept_outside() for output in outputs):
        raise Wrong("something is written outside an output")
    return errors


def check_product(library, d, causal):
    """Q, K, V and their gradients as slices of one product each."""
    q, k, v = of_product(2, 333, 6, 2, d)
    dq, dk, dv = of_product(2, 333, 6, 2, d, False)
    d_o, o = torch.randn_like(q.contiguous()), torch.full_like(q.contiguous(), float("nan"))
    lse = torch.empty(2, 6, 333, device="cuda")
    exact, peer = (reference(q, k, v, d_o, causal, t) for t in (torch.float64, torch.bfloat16))
    call, errors = Call(library, q, k, v, o, lse, causal), []
    if torch.cuda.get_device_capability() == (9, 0) and not call.describe().startswith("sm90"):
        raise Wrong("slices of a product do not take the fast path")
    call.forward()
    call.set_backward(d_o, dq, dk, dv, False)
    call.backward()
    for name, got, i in (("O", o, 0), ("dQ", dq, 2), ("dK", dk, 3), ("dV", dv, 4)):
        compare(name, got, exact[i], peer[i], errors)
    return errors


def check_broadcast(library):
    """One batch of K and V for all (stride 0), and strides of dimensions of length 1 that are anything."""
    q = torch.randn(3, 70, 1, 64, device="cuda").to(torch.bfloat16).as_strided((3, 70, 1, 64), (70 * 64, 64, 13, 1))
    k, v = (torch.randn(1, 90, 1, 64, device="cuda").to(torch.bfloat16).expand(3, 90, 1, 64) for _ in range(2))
    o, lse = torch.empty(3, 70, 1, 64, device="cuda", dtype=torch.bfloat16), torch.empty(3, 1, 70, device="cuda")
    exact, peer = (reference(q, k, v, None, False, t) for t in (torch.float64, torch.bfloat16))
    errors = []
    Call(library, q, k, v, o, lse, False).forward()
    compare("O", o, exact[0], peer[0], errors)
    one = Call(library, q[:1], k[:1], v[:1], o[:1], lse[:1], False)
    if torch.cuda.get_device_capability() == (9, 0) and not one.describe().startswith("sm90"):
        raise Wrong("a stride that leads nowhere keeps a call from the fast path")
    return errors


def check_nan(library, d):
    """A NaN in a row of Q stays in that row, and shows in its LSE; a row without keys gives 0 even where V is NaN."""
    q, k, v = (torch.randn(1, rows, 1, d, device="cuda").to(torch.bfloat16) for rows in (300, 200, 200))
    o, lse = torch.empty_like(q), torch.empty(1, 1, 300, device="cuda")
    q[0, 150] = float("nan")
    Call(library, q, k, v, o, lse, False).forward()
    bad = torch.arange(300, device="cuda") == 150
    if not (o[0, 150].isnan().all() and lse[0, 0, 150].isnan()):
        raise Wrong("a NaN in Q does not show")
    if not (torch.isfinite(o[0, ~bad]).all() and torch.isfinite(lse[0, 0, ~bad]).all()):
        raise Wrong("a NaN in a row of Q spoils other rows")
    v[:] = float("nan")
    Call(library, q, k, v, o, lse, True).forward()
    if not ((o[0, :100] == 0).all() and (lse[0, 0, :100] == float("-inf")).all()):
        raise Wrong("rows without keys do not give 0 and -inf where V is NaN")


def check_large_scores(library, d):
    """Scores of several thousand: exp() of them would overflow without the row's maximum."""
    q, k, v, d_o = (torch.randn(1, 200, 2, d, device="cuda").to(torch.bfloat16) for _ in range(4))
    o, lse = torch.empty_like(q), torch.empty(1, 2, 200, device="cuda")
    exact = reference(q, k, v, d_o, True, torch.float64, 40.0)
    call = Call(library, q, k, v, o, lse, True, 40.0)
    call.forward()
    gradients = [torch.empty_like(q) for _ in range(3)]
    call.set_backward(d_o, *gradients, False)
    call.backward()
    if not all(torch.isfinite(t).all() for t in [o, lse] + gradients):
        raise Wrong("large scores overflow")
    off = (o.double() - exact[0]).norm() / exact[0].norm()
    if not off <= 2e-2:
        raise Wrong(f"O is off by {off:.3g} of its norm")


def check_empty(library):
    """No rows, no keys, no batch: what there is to write is written."""
    for batch, sq, sk in itertools.product((0, 2), (0, 5), (0, 7)):
        case = Case(sq, sk, 2, 64, False, batch=batch)
        q, k, v, d_o, o = queries_of(case), keys_of(case), keys_of(case), queries_of(case), queries_of(case, False)
        lse = torch.full((batch, 6, sq), float("nan"), device="cuda")
        call = Call(library, q.t, k.t, v.t, o.t, lse, False)
        call.forward()
        gradients = [queries_of(case, False), keys_of(case, False), keys_of(case, False)]
        call.set_backward(d_o.t, *(g.t for g in gradients), False)
        call.backward()
        torch.cuda.synchronize()
        if sk == 0 and not ((o.t == 0).all() and (lse == float("-inf")).all()):
            raise Wrong("without keys O is not 0 or LSE not -inf")
        if (sq == 0 or sk == 0) and not all((g.t == 0).all() for g in gradients):
            raise Wrong("without rows or keys a gradient is not 0")


def check_errors(library):
    """What is refused has launched nothing."""
    case = Case(130, 140, 2, 64, True)
    q, k, v, d_o, o = queries_of(case), keys_of(case), keys_of(case), queries_of(case), queries_of(case, False)
    lse = torch.full((2, 6, 130), float("nan"), device="cuda")
    for field, value, wanted in (("d", 80, ERR_UNSUPPORTED), ("kv_heads", 4, ERR_ARGUMENT),
                                 ("scale", -1.0, ERR_ARGUMENT), ("scale", float("nan"), ERR_ARGUMENT),
                                 ("datatype", 7, ERR_ARGUMENT),
                                 ("sk", 1 << 40, ERR_ARGUMENT), ("v", None, ERR_ARGUMENT), ("lse", None, ERR_ARGUMENT),
                                 ("o_strides", Strides(0, 0, 0), ERR_ARGUMENT)):
        call = Call(library, q.t, k.t, v.t, o.t, lse, True)
        setattr(call.a, field, value)
        call.forward(wanted)
    call = Call(library, q.t, k.t, v.t, o.t, lse, True)
    gradients = [queries_of(case, False), keys_of(case, False), keys_of(case, False)]
    for deterministic in (False, True):
        call.set_backward(d_o.t, *(g.t for g in gradients), deterministic)
        call.b.workspace_bytes -= 1
        call.backward(ERR_MEMORY)
        call.b.workspace_bytes += 1
        call.b.workspace, kept = None, call.b.workspace
        call.backward(ERR_MEMORY)
        call.b.workspace, call.b.workspace_bytes = kept + 4, call.b.workspace_bytes + 16
        call.backward(ERR_ARGUMENT)
    torch.cuda.synchronize()
    if not (lse.isnan().all() and all(g.whole.isnan().all() for g in [o] + gradients)):
        raise Wrong("a refused call has written something")


def check_graph(library, d):
    """Captured and replayed: no allocation, no synchronisation, the same bits."""
    q, k, v, d_o = (torch.randn(2, 300, 4, d, device="cuda").to(torch.bfloat16) for _ in range(4))
    o, lse = torch.empty_like(q), torch.empty(2, 4, 300, device="cuda")
    gradients = [torch.empty_like(q) for _ in range(3)]
    call = Call(library, q, k, v, o, lse, True)
    call.set_backward(d_o, *gradients, True)
    call.forward()
    call.backward()
    torch.cuda.synchronize()
    kept = [t.clone() for t in [o, lse] + gradients]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call.forward()
        call.backward()
    for t in [o, lse] + gradients:
        t.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    if not all(torch.equal(a, b) for a, b in zip(kept, [o, lse] + gradients)):
        raise Wrong("a replayed graph gives other bits")


def check_past_2_31(library, d):
    """More than 2^31 elements a tensor: the last batch is as right as it is alone."""
    rows, heads = 1087, 64
    batch = (1 << 31) // (rows * heads * d) + 2
    elements = batch * rows * heads * d
    needed = 8 * 2 * elements + batch * heads * 1152 * (d + 2) * 4 + (4 << 30)
    if needed > torch.cuda.mem_get_info()[0]:
        return f"needs {needed >> 30} GiB of free GPU memory"
    q, k, v, d_o = (torch.empty(batch, rows, heads, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for t in (q, k, v, d_o):
        for i in range(0, batch, 64):
            t[i:i + 64].normal_()
    o, lse = torch.full_like(q, float("nan")), torch.full((batch, heads, rows), float("nan"), device="cuda")
    gradients = [torch.full_like(q, float("nan")) for _ in range(3)]
    call, errors = Call(library, q, k, v, o, lse, True), []
    call.set_backward(d_o, *gradients, False)
    call.forward()
    call.backward()
    for b in (0, batch - 1):
        part = [t[b:b + 1, :, -2:] for t in (q, k, v, d_o)]
        exact, peer = (reference(*part, True, t) for t in (torch.float64, torch.bfloat16))
        for name, got, i in (("O", o, 0), *zip(("dQ", "dK", "dV"), gradients, (2, 3, 4))):
            compare(name, got[b:b + 1, :, -2:], exact[i], peer[i], errors)
        compare_lse(lse[b:b + 1, -2:], exact[1])
    return errors


def check_long(library, d):
    """A sequence of 200001: more tiles than a grid's y holds, an LSE over many keys. The last rows are compared."""
    rows = 200001
    q, k, v = (torch.randn(1, rows, 1, d, device="cuda").to(torch.bfloat16) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(1, 1, rows, device="cuda")
    errors = []
    for causal in (False, True):
        Call(library, q, k, v, o, lse, causal).forward()
        exact, peer = (reference(q[:, -300:], k, v, None, causal, t) for t in (torch.float64, torch.bfloat16))
        compare("O", o[:, -300:], exact[0], peer[0], errors)
        compare_lse(lse[:, :, -300:], exact[1])
    return errors


def checks(which):
    """(name, function of the library) each."""
    if which in (None, "check"):
        for d, (sq, sk), kv_heads, causal in itertools.product((64, 128), PAIRS, (6, 2, 1), (False, True)):
            layout = "bhld" if (sq + sk + kv_heads) % 2 else "blhd"
            case = Case(sq, sk, kv_heads, d, causal, layout)
            yield str(case), lambda library, case=case: check_case(library, case)
        for d, (sq, sk), kv_heads, causal in itertools.product((64, 128), SHORT_PAIRS, (6, 2), (False, True)):
            for layout, dtype in (("odd", "bfloat16"), ("blhd", "float32"), ("odd", "float32")):
                case = Case(sq, sk, kv_heads, d, causal, layout, dtype)
                yield str(case), lambda library, case=case: check_case(library, case)
        for d, causal in itertools.product((64, 128), (False, True)):
            yield f"slices of a product d {d} causal {causal}", lambda l, d=d, c=causal: check_product(l, d, c)
        for d in (64, 128):
            yield f"NaN d {d}", lambda library, d=d: check_nan(library, d)
            yield f"large scores d {d}", lambda library, d=d: check_large_scores(library, d)
            yield f"graph d {d}", lambda library, d=d: check_graph(library, d)
        yield "broadcast", check_broadcast
        yield "empty", check_empty
        yield "refused", check_errors
    if which in (None, "large"):
        for d in (64, 128):
            yield f"past 2^31 elements d {d}", lambda library, d=d: check_past_2_31(library, d)
            yield f"200001 rows d {d}", lambda library, d=d: check_long(library, d)


def run_checks(library, which, results):
    wrong = 0
    for number, (name, function) in enumerate(checks(which), 1):
        line, why, errors = f"ok {number} - {name}", None, None
        try:
            errors = function(library)
            torch.cuda.synchronize()
            if isinstance(errors, str):
                line, errors = f"{line} # SKIP {errors}", None
        except Wrong as error:
            line, why = f"not ok {number} - {name}", str(error)
            wrong += 1
        torch.cuda.empty_cache()
        print(line, *([f"# {why}"] if why else []), sep="\n", flush=True)
        largest = max(errors, key=lambda e: e[1] / (e[2] or 1)) if errors else None
        results.append({"name": name, "right": why is None, "why": why,
                        "error": largest and {"of": largest[0], "ours": largest[1], "pytorch": largest[2]}})
    print(f"1..{len(results)}", flush=True)
    return wrong


# ---- Times ----------------------------------------------------------------------------------------------------------

# d, heads, and as many batches as make 16384 rows: those of peers.md
TIMED = [(d, heads, causal, length) for d, heads in ((128, 16), (64, 32)) for causal in (False, True)
         for length in (2048, 4096, 8192, 16384)]


def time_of(function, iterations):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(iterations):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / iterations


def measure(contenders, rounds, flops):
    """Medians in seconds, in rounds, each in another order. A batch is about 4 ms."""
    iterations = max(2, int(4e-3 / (flops / 500e12)))
    samples = {name: [] for name in contenders}
    for function in contenders.values():
        time_of(function, 2)
    for _ in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            samples[name].append(time_of(contenders[name], iterations))
    return {name: statistics.median(values) for name, values in samples.items()}


def cudnn(q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def near(name, got, wanted):
    off = ((got.double() - wanted.double()).norm() / wanted.double().norm()).item()
    if not off <= 1e-2:
        raise Wrong(f"{name} is off cuDNN's by {off:.3g} of its norm")


def time_point(library, d, heads, causal, length, rounds):
    batch = max(1, 16384 // length)
    q, k, v, d_o = (torch.randn(batch, heads, length, d, device="cuda").to(torch.bfloat16) for _ in range(4))
    for t in (q, k, v):
        t.requires_grad_()
    rows = [t.detach().transpose(1, 2) for t in (q, k, v)]
    o, lse = torch.empty_like(rows[0]), torch.empty(batch, heads, length, device="cuda")
    ours, fixed = Call(library, *rows, o, lse, causal), Call(library, *rows, o, lse, causal)
    gradients = [torch.empty_like(t) for t in rows]
    ours.set_backward(d_o.transpose(1, 2), *gradients, False)
    fixed.set_backward(d_o.transpose(1, 2), *gradients, True)
    flops = 4.0 * batch * heads * length * length * d * (0.5 if causal else 1)
    with torch.no_grad():
        forward = measure({"cudnn": lambda: cudnn(q, k, v, causal), "ours": ours.forward}, rounds, flops)
    out = cudnn(q, k, v, causal)
    near("O", o.transpose(1, 2), out.detach())
    peer = {"cudnn": lambda: torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True)}
    backward = measure({**peer, "ours": ours.backward, "deterministic": fixed.backward}, rounds, 2.5 * flops)
    for call in (ours, fixed):
        call.backward()
        for name, got, wanted in zip(("dQ", "dK", "dV"), gradients, peer["cudnn"]()):
            near(name, got.transpose(1, 2), wanted)
    return {"d": d, "heads": heads, "batch": batch, "length": length, "causal": causal,
            "path": ours.describe(), "forward_flops": flops, "backward_flops": 2.5 * flops,
            "forward_seconds": forward, "backward_seconds": backward}


def run_times(library, rounds, results):
    wrong = 0
    print("# TFLOP/s (share of cuDNN's); operations: 4 (backward 10) x batch x heads x length^2 x d, causal half of it")
    for d, heads, causal, length in TIMED:
        name = f"d {d} {'causal' if causal else 'full'} {length}"
        try:
            point = time_point(library, d, heads, causal, length, rounds)
        except Wrong as error:
            print(f"# {name}: WRONG, no speed: {error}", flush=True)
            wrong += 1
            continue
        results.append(point)
        parts = []
        for kind in ("forward", "backward"):
            seconds = point[kind + "_seconds"]
            parts += [f"{kind}"] + [f"{who} {point[kind + '_flops'] / s * 1e-12:.0f} ({seconds['cudnn'] / s:.2f})"
                                    for who, s in seconds.items()]
        print(f"# {name}:", *parts, flush=True)
    return wrong


# ---- Main -----------------------------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-t", "--time", action="store_true", help="also time it beside cuDNN")
    parser.add_argument("--only", choices=("check", "large", "time"), help="one part")
    parser.add_argument("--json", metavar="FILE", help="results as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each contender (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the data (default: %(default)s)")
    parser.add_argument("library", help="libtrkernels.so")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("1..0 # SKIP no PyTorch with a GPU here")
        return 0
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    library = load(os.path.abspath(options.library))
    checked, points = [], []
    wrong = run_checks(library, options.only, checked) if options.only != "time" else 0
    if options.only == "time" or (options.time and options.only is None):
        wrong += run_times(library, options.rounds, points)
    if options.json:
        report = {"schema": "treering-kernels-attention", "schema_version": 1,
                  "environment": {"gpu": torch.cuda.get_device_name(), "pytorch": torch.__version__,
                                  "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()},
                  "options": {"rounds": options.rounds, "seed": options.seed}, "checks": checked, "points": points}
        with open(options.json + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
        os.replace(options.json + ".part", options.json)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
