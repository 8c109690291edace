"""kernels_rows.py - the memory-bound kernels against float64 in PyTorch; kernels_test.py runs it.

Every operand lies in memory of its own with NaN around it, at any alignment, and what lies around it must stay.
"""
import ctypes
import itertools
import math

import torch

F32, BF16 = 0, 1
TYPES = {F32: torch.float32, BF16: torch.bfloat16}
UNITS = {F32: 2.0**-22, BF16: 2.0**-8}  # a rounding, relative
IGNORE = -100

CODES = {"i": ctypes.c_int, "z": ctypes.c_size_t, "f": ctypes.c_float, "b": ctypes.c_bool, "p": ctypes.c_void_p,
         "q": ctypes.c_uint64, "d": ctypes.c_int32}


def struct(name, fields):
    """struct tk_NAME of src/kernels: fields as "code:name name ..." """
    pairs = [(field, CODES[group[0]]) for group in fields.split("; ") for field in group[2:].split()]
    return type(name, (ctypes.Structure,), {"_fields_": pairs})


NormForward = struct("norm_forward", "i:type; z:rows width; f:epsilon; b:centred; "
                     "p:input residual weight bias sum output mean rstd")
NormBackward = struct("norm_backward", "i:type; z:rows width; b:centred; p:input output_gradient residual_gradient weight "
                      "mean rstd input_gradient; i:weight_type; b:accumulate; p:weight_gradient bias_gradient workspace; "
                      "z:workspace_bytes")
SoftmaxForward = struct("softmax_forward", "i:type; z:rows width; p:input output")
SoftmaxBackward = struct("softmax_backward", "i:type; z:rows width; p:output output_gradient input_gradient")
CrossEntropy = struct("cross_entropy", "i:type; z:rows width stride; p:logits targets; d:ignore; p:loss lse gradient; f:scale")
CrossEntropyBackward = struct("cross_entropy_backward", "i:type; z:rows width stride; p:logits targets; d:ignore; "
                              "p:lse loss_gradient; f:scale; p:gradient")
EmbeddingForward = struct("embedding_forward", "i:type; z:tokens vocabulary width; p:ids table output")
EmbeddingBackward = struct("embedding_backward", "i:type; z:tokens vocabulary width; p:ids output_gradient; i:table_type; "
                           "b:accumulate; p:table_gradient workspace; z:workspace_bytes")
Rotary = struct("rotary", "i:type; z:tokens heads width input_stride output_stride; b:interleaved; p:input output positions; "
                "z:sequence; p:table; z:table_positions")
SwigluForward = struct("swiglu_forward", "i:type; z:rows width input_stride output_stride; p:gate up output")
SwigluBackward = struct("swiglu_backward", "i:type; z:rows width input_stride output_stride; p:gate up output_gradient "
                        "gate_gradient up_gradient")
AdamwTensor = struct("adamw_tensor", "z:count; p:parameter master m v gradient; f:decay")
Adamw = struct("adamw", "i:parameter_type gradient_type; p:tensors; z:count; f:rate beta1 beta2 epsilon; q:step; f:scale; "
               "p:more_scale")
Gradient = struct("gradient", "p:values; z:count")
GradientNorm = struct("gradient_norm", "i:type; p:tensors; z:count; f:scale max_norm; p:result workspace; z:workspace_bytes")

STRUCTS = [NormForward, NormBackward, SoftmaxForward, SoftmaxBackward, CrossEntropy, CrossEntropyBackward, EmbeddingForward,
           EmbeddingBackward, Rotary, SwigluForward, SwigluBackward, AdamwTensor, Adamw, Gradient, GradientNorm]

# rows x width: warps, blocks, clusters and rows read again, and the edges between them
SHAPES = [(1, 1), (37, 7), (199, 192), (37, 255), (37, 256), (37, 257), (4096, 768), (37, 1023), (199, 1024), (37, 1025),
          (37, 2049), (199, 4096), (37, 5001), (37, 8191), (37, 8192), (37, 8200), (37, 16384), (5, 16385), (5, 32768),
          (5, 50257), (5, 65536), (5, 65544), (3, 100003), (3, 131072), (3, 131080), (2, 262144), (2, 262143), (2, 300001)]


class Operand:
    """rows x width, `stride` apart, `offset` elements into memory of its own, NaN around it."""

    def __init__(self, rows, width, dtype, fill=None, stride=None, offset=0, scale=1.0, centre=0.0):
        stride = stride or width
        self.offset, integer = offset, not dtype.is_floating_point
        self.memory = torch.full((offset + rows * stride + 16,), -7 if integer else math.nan, dtype=dtype, device="cuda")
        self.view = self.memory[offset : offset + rows * stride].view(rows, stride)[:, :width]
        if fill is not None:
            self.view.copy_(fill)
        elif not integer:
            self.view.copy_(torch.randn((rows, width), device="cuda", dtype=torch.float32) * scale + centre)
        self.mask = torch.ones_like(self.memory, dtype=torch.bool)
        self.mask[offset : offset + rows * stride].view(rows, stride)[:, :width] = False
        self.around = self.memory[self.mask].clone()

    @property
    def at(self):
        return self.memory.data_ptr() + self.offset * self.memory.element_size()

    def double(self):
        return self.view.double()

    def check_around(self, what):
        now = self.memory[self.mask]
        same = (now == self.around) | ((now != now) & (self.around != self.around))
        assert bool(same.all()), f"{what}: something beside the operand was written"


def result(rows, width, dtype, **where):
    return Operand(rows, width, dtype, fill=torch.full((rows, width), math.nan, device="cuda"), **where)


def near(operand, wanted, allowed, what):
    operand.check_around(what)
    difference = (operand.double() - wanted).abs()
    bad = ~(difference <= allowed)
    if bool(bad.any()):
        at = bad.nonzero()[0].tolist()
        got, want = operand.double()[tuple(at)].item(), wanted.expand_as(bad)[tuple(at)].item()
        raise AssertionError(f"{what}: {int(bad.sum())} values differ, at {at}: {got:.9g}, not {want:.9g}")


def launch(library, name, arguments):
    """The call, its workspace where it has one, and the wait for it."""
    if hasattr(arguments, "workspace"):
        need = ctypes.c_size_t()
        library.check(getattr(library.lib, f"tk_{name}_workspace")(ctypes.byref(arguments), ctypes.byref(need)))
        workspace = torch.full((max(need.value, 16),), 255, dtype=torch.uint8, device="cuda")
        arguments.workspace, arguments.workspace_bytes = workspace.data_ptr(), need.value
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    library.check(getattr(library.lib, f"tk_{name}")(ctypes.byref(arguments), stream))
    torch.cuda.synchronize()


# ---- Norms ------------------------------------------------------------------------------------------------------------


def try_norm(library, rows, width, type_, centred, residual, offset, in_place=False):
    what = f"{'layernorm' if centred else 'rmsnorm'} {rows}x{width} type {type_} residual {residual} offset {offset}"
    dtype, unit = TYPES[type_], UNITS[type_]
    x, r, dy, other = (Operand(rows, width, dtype, offset=offset) for _ in range(4))
    weight, bias = Operand(1, width, dtype, offset=offset), Operand(1, width, dtype, offset=offset)
    y, total = result(rows, width, dtype, offset=offset), result(rows, width, dtype, offset=offset)
    mean, rstd = result(rows, 1, torch.float32), result(rows, 1, torch.float32)
    wanted_sum = (x.view.float() + r.view.float()).to(dtype) if residual else x.view.clone()
    sum_at = (x.at if in_place else total.at) if residual else None
    out_at = x.at if in_place and not residual else y.at
    launch(library, "norm_forward", NormForward(type_, rows, width, 1e-5, centred, x.at, r.at if residual else None, weight.at,
                                                bias.at if centred else None, sum_at, out_at,
                                                mean.at if centred else None, rstd.at))
    if residual:
        near(x if in_place else total, wanted_sum.double(), 0, what + " sum")
    xd, wd, bd = (t.double().requires_grad_() for t in (wanted_sum, weight.view, bias.view))
    middle = xd.mean(1, keepdim=True) if centred else torch.zeros((rows, 1), dtype=torch.float64, device="cuda")
    wanted_rstd = 1 / ((xd - middle).square().mean(1, keepdim=True) + 1e-5).sqrt()
    n = (xd - middle) * wanted_rstd
    wanted = n * wd + (bd if centred else 0)
    near(rstd, wanted_rstd.detach(), 1e-5 * wanted_rstd.detach(), what + " rstd")
    if centred:
        near(mean, middle.detach(), 1e-5, what + " mean")
    near(x if out_at == x.at else y, wanted.detach(), unit * wanted.detach().abs() + 2e-5, what)
    if in_place:
        return

    wanted.backward(dy.double())
    source = total if residual else x
    dx = result(rows, width, dtype, offset=offset)
    before = 3.0
    dw, db = (Operand(1, width, torch.float32, fill=torch.full((1, width), before, device="cuda")) for _ in range(2))
    for accumulate in (False, True):
        launch(library, "norm_backward", NormBackward(type_, rows, width, centred, source.at, dy.at,
                                                      other.at if residual else None, weight.at,
                                                      mean.at if centred else None, rstd.at, dx.at, F32, accumulate, dw.at,
                                                      db.at if centred else None))
    wanted_dx = xd.grad + (other.double() if residual else 0)
    near(dx, wanted_dx, unit * wanted_dx.abs() + 3e-5 * wanted_rstd.detach() + 1e-5, what + " input gradient")
    magnitude = (dy.double() * n.detach()).abs().sum(0, keepdim=True)
    near(dw, 2 * wd.grad, 1e-5 * magnitude + 1e-5, what + " weight gradient")
    if centred:
        near(db, 2 * bd.grad, 1e-5 * dy.double().abs().sum(0, keepdim=True), what + " bias gradient")


def norm_tests(library, tap):
    for type_, centred in itertools.product(TYPES, (False, True)):
        name = f"{'layernorm' if centred else 'rmsnorm'} {'bf16' if type_ == BF16 else 'f32'}"

        def shapes(type_=type_, centred=centred):
            for (rows, width), residual in itertools.product(SHAPES, (False, True)):
                try_norm(library, rows, width, type_, centred, residual, 0)

        def misaligned(type_=type_, centred=centred):
            for rows, width in ((37, 256), (37, 1000), (37, 4096), (3, 20000), (2, 262144)):
                for offset in (1, 3):
                    try_norm(library, rows, width, type_, centred, True, offset)

        def in_place(type_=type_, centred=centred):
            for (rows, width), residual in itertools.product(((199, 192), (37, 1023), (37, 4095), (3, 300001)), (False, True)):
                try_norm(library, rows, width, type_, centred, residual, 0, in_place=True)

        def many_rows(type_=type_, centred=centred):
            try_norm(library, 70001, 192, type_, centred, False, 0)
            try_norm(library, 70001, 33, type_, centred, True, 0)

        for test in (shapes, misaligned, in_place, many_rows):
            tap.run(f"{name} {test.__name__}", test)

    def large_mean():
        x = Operand(37, 4096, torch.float32, centre=1e4)
        weight, y = Operand(1, 4096, torch.float32), result(37, 4096, torch.float32)
        mean, rstd = result(37, 1, torch.float32), result(37, 1, torch.float32)
        launch(library, "norm_forward", NormForward(F32, 37, 4096, 1e-5, True, x.at, None, weight.at, None, None, y.at, mean.at,
                                                    rstd.at))
        wanted = 1 / (x.double().var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        near(rstd, wanted, 1e-4 * wanted, "rstd at a mean of 10000")

    def nan_stays():
        for width in (100, 4096, 40000):
            x = Operand(9, width, torch.bfloat16)
            x.view[4, width // 2] = math.nan
            x.view[6] *= 1e15
            weight, y, rstd = Operand(1, width, torch.bfloat16), result(9, width, torch.bfloat16), result(9, 1, torch.float32)
            launch(library, "norm_forward", NormForward(BF16, 9, width, 1e-5, False, x.at, None, weight.at, None, None, y.at, None,
                                                        rstd.at))
            bad = torch.isnan(y.view).any(1)
            assert bad.nonzero().flatten().tolist() == [4], f"width {width}: rows with NaN: {bad.nonzero().flatten().tolist()}"
            assert bool(torch.isnan(y.view[4]).all()), "a NaN in a row does not reach all of it"

    def beyond_2_31():
        rows, width = 33000, 65536
        x = torch.empty((rows, width), dtype=torch.bfloat16, device="cuda").normal_()
        weight, rstd = torch.ones(width, dtype=torch.bfloat16, device="cuda"), torch.empty(rows, device="cuda")
        y = torch.full_like(x, math.nan)
        launch(library, "norm_forward", NormForward(BF16, rows, width, 1e-5, False, x.data_ptr(), None, weight.data_ptr(), None,
                                                    None, y.data_ptr(), None, rstd.data_ptr()))
        for row in (0, 16383, 32767, 32768, rows - 1):
            xd = x[row].double()
            wanted = xd / (xd.square().mean() + 1e-5).sqrt()
            assert bool(((y[row].double() - wanted).abs() <= UNITS[BF16] * wanted.abs() + 1e-5).all()), f"row {row} differs"

    def no_rows():
        dw = torch.full((64,), 5.0, device="cuda")
        launch(library, "norm_backward", NormBackward(F32, 0, 64, False, None, None, None, None, None, None, None, F32, False,
                                                      dw.data_ptr(), None))
        assert bool((dw == 0).all()), "the weight gradient of no rows is not 0"

    def repeated():
        first = None
        x, dy = (Operand(5000, 768, torch.bfloat16) for _ in range(2))
        weight, dx = Operand(1, 768, torch.bfloat16), result(5000, 768, torch.bfloat16)
        rstd = Operand(5000, 1, torch.float32, fill=torch.ones((5000, 1), device="cuda"))
        for _ in range(10):
            dw = result(1, 768, torch.float32)
            launch(library, "norm_backward", NormBackward(BF16, 5000, 768, False, x.at, dy.at, None, weight.at, None, rstd.at,
                                                          dx.at, F32, False, dw.at, None))
            first = dw.view.clone() if first is None else first
            assert torch.equal(first, dw.view), "the weight gradient differs between runs"

    for test in (large_mean, nan_stays, beyond_2_31, no_rows, repeated):
        tap.run(f"norm {test.__name__}", test)


# ---- Softmax and cross-entropy ----------------------------------------------------------------------------------------


def try_softmax(library, rows, width, type_, offset, spread):
    what = f"softmax {rows}x{width} type {type_} offset {offset}"
    dtype, unit = TYPES[type_], UNITS[type_]
    x, dy = (Operand(rows, width, dtype, offset=offset, scale=s) for s in (spread, 1.0))
    y, dx = (result(rows, width, dtype, offset=offset) for _ in range(2))
    if width > 3:
        x.view[0, 3] = -math.inf
    launch(library, "softmax_forward", SoftmaxForward(type_, rows, width, x.at, y.at))
    wanted = torch.softmax(x.double(), 1)
    near(y, wanted, 8 * UNITS[F32] * wanted * spread + unit * wanted + 1e-30, what)
    launch(library, "softmax_backward", SoftmaxBackward(type_, rows, width, y.at, dy.at, dx.at))
    yd, dyd = y.double(), dy.double()
    wanted = yd * (dyd - (yd * dyd).sum(1, keepdim=True))
    near(dx, wanted, unit * wanted.abs() + 1e-5 * yd + 1e-30, what + " gradient")
    launch(library, "softmax_forward", SoftmaxForward(type_, rows, width, x.at, x.at))
    assert torch.equal(x.view, y.view), what + ": differs in place"


def try_entropy(library, rows, width, stride, type_, offset):
    what = f"cross_entropy {rows}x{width} stride {stride} type {type_} offset {offset}"
    dtype, unit = TYPES[type_], UNITS[type_]
    x = Operand(rows, width, dtype, stride=stride, offset=offset, scale=3.0)
    targets = torch.randint(0, width, (rows,), dtype=torch.int32, device="cuda")
    targets[rows // 2] = IGNORE
    g, again = (result(rows, width, dtype, stride=stride, offset=offset) for _ in range(2))
    loss, lse = result(rows, 1, torch.float32), result(rows, 1, torch.float32)
    launch(library, "cross_entropy", CrossEntropy(type_, rows, width, stride, x.at, targets.data_ptr(), IGNORE, loss.at, lse.at,
                                                  g.at, 0.5))
    xd = x.double().requires_grad_()
    each = torch.nn.functional.cross_entropy(xd, targets.long(), ignore_index=IGNORE, reduction="none")
    (0.5 * each.sum()).backward()
    near(loss, each.detach()[:, None], 2e-5, what + " loss")
    near(lse, torch.logsumexp(x.double(), 1, keepdim=True), 2e-5, what + " lse")
    allowed = unit * xd.grad.abs() + 1e-5 * torch.softmax(x.double(), 1)
    near(g, xd.grad, allowed, what + " gradient")
    factors = torch.full((rows,), 0.25, device="cuda")
    launch(library, "cross_entropy_backward",
           CrossEntropyBackward(type_, rows, width, stride, x.at, targets.data_ptr(), IGNORE, lse.at, factors.data_ptr(), 2.0,
                                again.at))
    near(again, xd.grad, allowed, what + " gradient alone")
    launch(library, "cross_entropy", CrossEntropy(type_, rows, width, stride, x.at, targets.data_ptr(), IGNORE, loss.at, None,
                                                  x.at, 0.5))
    assert torch.equal(x.view, g.view), what + ": differs in place"
    x.check_around(what)


def softmax_tests(library, tap):
    for type_ in TYPES:
        name = "bf16" if type_ == BF16 else "f32"

        def shapes(type_=type_):
            for (rows, width), spread in itertools.product(SHAPES, (1.0, 20.0)):
                try_softmax(library, rows, width, type_, 0, spread)
            try_softmax(library, 70001, 65, type_, 0, 1.0)

        def misaligned(type_=type_):
            for (rows, width), offset in itertools.product(((37, 256), (37, 4096), (3, 20000), (2, 262144)), (1, 3)):
                try_softmax(library, rows, width, type_, offset, 1.0)

        def entropy(type_=type_):
            for rows, width in SHAPES:
                if rows > 1:
                    try_entropy(library, rows, width, width, type_, 0)
            for rows, width, stride, offset in ((37, 50257, 50304, 0), (37, 1000, 1003, 1), (9, 128256, 128256, 0),
                                                (70001, 33, 40, 0), (199, 32000, 32000, 8)):
                try_entropy(library, rows, width, stride, type_, offset)

        tap.run(f"softmax {name} shapes", shapes)
        tap.run(f"softmax {name} misaligned", misaligned)
        tap.run(f"cross_entropy {name}", entropy)

    def not_finite():
        for width in (100, 4096, 40000):
            x = Operand(9, width, torch.float32)
            x.view[2, width - 1] = math.nan
            x.view[4] = -math.inf
            x.view[6, : width - 1] = -math.inf
            y = result(9, width, torch.float32)
            launch(library, "softmax_forward", SoftmaxForward(F32, 9, width, x.at, y.at))
            bad = torch.isnan(y.view)
            assert bool(bad[2].all()) and bool(bad[4].all()) and int(bad.any(1).sum()) == 2, f"width {width}: NaN is elsewhere"
            assert y.view[6, width - 1].item() == 1, f"width {width}: the only finite value has not all of the share"

    tap.run("softmax of what is not finite", not_finite)


# ---- The rest of a step -----------------------------------------------------------------------------------------------


def try_swiglu(library, rows, width, pad, type_, offset):
    what = f"swiglu {rows}x{width} pad {pad} type {type_} offset {offset}"
    dtype, unit, stride = TYPES[type_], UNITS[type_], 2 * width + pad
    size = 2 if type_ == BF16 else 4
    x, dx = Operand(rows, 2 * width, dtype, stride=stride, offset=offset, scale=3.0), result(rows, 2 * width, dtype, stride=stride,
                                                                                           offset=offset)
    dy, y = Operand(rows, width, dtype, offset=offset), result(rows, width, dtype, offset=offset)
    launch(library, "swiglu_forward", SwigluForward(type_, rows, width, stride, width, x.at, x.at + width * size, y.at))
    launch(library, "swiglu_backward", SwigluBackward(type_, rows, width, stride, width, x.at, x.at + width * size, dy.at, dx.at,
                                                      dx.at + width * size))
    xd = x.double().requires_grad_()
    wanted = torch.nn.functional.silu(xd[:, :width]) * xd[:, width:]
    wanted.backward(dy.double())
    near(y, wanted.detach(), unit * wanted.detach().abs() + 1e-5, what)
    near(dx, xd.grad, unit * xd.grad.abs() + 3e-5, what + " gradient")


def try_embedding(library, tokens, vocabulary, width, type_, table_type, ids):
    what = f"embedding {tokens} of {vocabulary}x{width} types {type_} {table_type}"
    dtype = TYPES[type_]
    table, y = Operand(vocabulary, width, dtype), result(tokens, width, dtype)
    launch(library, "embedding_forward", EmbeddingForward(type_, tokens, vocabulary, width, ids.data_ptr(), table.at, y.at))
    known = (ids >= 0) & (ids < vocabulary)
    assert torch.equal(y.view[known], table.view[ids[known].long()]), what
    assert bool(torch.isnan(y.view[~known]).all()), what + ": an unknown id is not NaN"
    dy = Operand(tokens, width, dtype)
    wanted, magnitude = (torch.zeros((vocabulary, width), dtype=torch.float64, device="cuda") for _ in range(2))
    wanted.index_add_(0, ids[known].long(), dy.double()[known])
    magnitude.index_add_(0, ids[known].long(), dy.double()[known].abs())
    first = None
    for accumulate in (False, False, True):
        if first is None:
            gradient = result(vocabulary, width, TYPES[table_type])
        launch(library, "embedding_backward", EmbeddingBackward(type_, tokens, vocabulary, width, ids.data_ptr(), dy.at, table_type,
                                                                accumulate, gradient.at))
        times = 2 if accumulate else 1
        near(gradient, times * wanted, (1e-5 + times * UNITS[table_type]) * magnitude + 1e-30, what + " gradient")
        if not accumulate:
            assert first is None or torch.equal(first, gradient.view), what + ": differs between runs"
            first = gradient.view.clone()


def try_rotary(library, width, interleaved, type_, offset, pad):
    what = f"rotary {width} interleaved {interleaved} type {type_} offset {offset}"
    tokens, heads, sequence, half, dtype = 300, 5, 128, width // 2, TYPES[type_]
    stride = heads * width + pad
    host = (ctypes.c_float * (sequence * width))()
    library.check(library.lib.tk_rotary_table_host(host, ctypes.c_size_t(sequence), ctypes.c_size_t(width), ctypes.c_double(1e4)))
    table = torch.tensor(list(host), device="cuda")
    x, y = Operand(tokens, heads * width, dtype, stride=stride, offset=offset), result(tokens, heads * width, dtype, stride=stride,
                                                                                       offset=offset)
    positions = torch.randint(0, sequence, (tokens,), dtype=torch.int32, device="cuda")
    for given in (False, True):
        arguments = Rotary(type_, tokens, heads, width, stride, stride, interleaved, x.at, y.at,
                           positions.data_ptr() if given else None, sequence, table.data_ptr(), sequence)
        launch(library, "rotary_forward", arguments)
        where = positions.double() if given else torch.arange(tokens, device="cuda").double() % sequence
        angle = where[:, None, None] * 1e4 ** (-2 * torch.arange(half, device="cuda").double() / width)
        xd = x.double().view(tokens, heads, width)
        a, b = (xd[..., ::2], xd[..., 1::2]) if interleaved else (xd[..., :half], xd[..., half:])
        pair = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
        wanted = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
        near(y, wanted.reshape(tokens, -1), UNITS[type_] * wanted.reshape(tokens, -1).abs() + 1e-5, what)
        arguments.input, arguments.output = y.at, y.at
        launch(library, "rotary_backward", arguments)
        near(y, x.double(), 4 * UNITS[type_] * (1 + x.double().abs()) + 1e-5, what + " and back, in place")


def try_adamw(library, type_, gradient_type, offset):
    counts = [1, 7, 8, 2048, 2049, 100003] + [33] * 60
    masters = [Operand(1, n, torch.float32, offset=offset) for n in counts]
    moments = [[Operand(1, n, torch.float32, fill=torch.zeros((1, n), device="cuda"), offset=offset) for n in counts]
               for _ in range(2)]
    parameters = [result(1, n, TYPES[type_], offset=offset) for n in counts]
    wanted = [m.double().clone().requires_grad_() for m in masters]
    optimizer = torch.optim.AdamW([{"params": [w], "weight_decay": 0.1 * (i % 2)} for i, w in enumerate(wanted)], lr=1e-2,
                                  betas=(0.9, 0.95), eps=1e-8, foreach=False)
    half = torch.full((1,), 0.5, device="cuda")
    for step in range(1, 4):
        gradients = [Operand(1, n, TYPES[gradient_type], offset=offset) for n in counts]
        tensors = (AdamwTensor * len(counts))(*[
            AdamwTensor(n, parameters[i].at, masters[i].at, moments[0][i].at, moments[1][i].at, gradients[i].at, 0.1 * (i % 2))
            for i, n in enumerate(counts)])
        launch(library, "adamw", Adamw(type_, gradient_type, ctypes.addressof(tensors), len(counts), 1e-2, 0.9, 0.95, 1e-8, step,
                                       0.5, half.data_ptr()))
        for w, g in zip(wanted, gradients):
            w.grad = g.double() / 4
        optimizer.step()
    for i, w in enumerate(wanted):
        near(masters[i], w.detach(), 2e-5, f"adamw tensor {i}")
        near(parameters[i], masters[i].double(), UNITS[type_] * masters[i].double().abs(), f"adamw parameter {i}")


def try_gradient_norm(library, type_, counts, offset):
    operands = [Operand(1, n, TYPES[type_], offset=offset) for n in counts]
    tensors = (Gradient * max(len(counts), 1))(*[Gradient(o.at, n) for o, n in zip(operands, counts)])
    first = None
    for _ in range(3):
        out = result(1, 2, torch.float32)
        launch(library, "gradient_norm", GradientNorm(type_, ctypes.addressof(tensors), len(counts), 0.5, 1.0, out.at))
        norm = 0.5 * sum(o.double().square().sum().item() for o in operands) ** 0.5
        wanted = torch.tensor([[norm, min(1.0, 1.0 / (norm + 1e-6))]], dtype=torch.float64, device="cuda")
        near(out, wanted, 1e-6 * wanted, f"gradient_norm of {len(counts)} tensors type {type_}")
        first = out.view.clone() if first is None else first
        assert torch.equal(first, out.view), "the norm differs between runs"
    if operands:
        operands[-1].view[0, -1] = math.nan
        launch(library, "gradient_norm", GradientNorm(type_, ctypes.addressof(tensors), len(counts), 0.5, 1.0, out.at))
        assert bool(torch.isnan(out.view).all()), "a NaN is lost"


def step_tests(library, tap):
    def ids_of(tokens, vocabulary, kind):
        if kind == "one":
            return torch.full((tokens,), vocabulary - 1, dtype=torch.int32, device="cuda")
        ids = (torch.rand(tokens, device="cuda") ** 6 * vocabulary).int()
        ids[::97] = -1
        ids[1::97] = vocabulary
        return ids

    for type_ in TYPES:
        name = "bf16" if type_ == BF16 else "f32"

        def swiglu(type_=type_):
            for (rows, width), offset in itertools.product(((1, 1), (37, 37), (199, 192), (37, 2816), (37, 11008), (9, 14337)), (0, 1)):
                for pad in (0, 8, 3):
                    try_swiglu(library, rows, width, pad, type_, offset)
            try_swiglu(library, 70001, 40, 0, type_, 0)

        def embedding(type_=type_):
            for tokens, vocabulary, width, kind in ((1, 1, 1, "one"), (33, 5, 8, "many"), (1000, 70, 37, "many"),
                                                    (5000, 50257, 768, "many"), (3000, 11, 4096, "one"),
                                                    (70001, 300, 24, "many"), (4097, 70000, 1000, "many")):
                for table_type in TYPES:
                    try_embedding(library, tokens, vocabulary, width, type_, table_type, ids_of(tokens, vocabulary, kind))

        def rotary(type_=type_):
            for width, interleaved, (offset, pad) in itertools.product((2, 6, 64, 80, 128), (False, True), ((0, 0), (1, 3), (8, 64))):
                try_rotary(library, width, interleaved, type_, offset, pad)

        def adamw(type_=type_):
            for gradient_type, offset in itertools.product(TYPES, (0, 1)):
                try_adamw(library, type_, gradient_type, offset)

        def gradient_norm(type_=type_):
            for counts, offset in itertools.product(([], [1], [7, 4096, 100003], [33] * 300, [50_000_000, 1]), (0, 1)):
                try_gradient_norm(library, type_, counts, offset)

        for test in (swiglu, embedding, rotary, adamw, gradient_norm):
            tap.run(f"{test.__name__} {name}", test)

    def errors():
        for name, arguments, word in (("norm_forward", NormForward(F32, 1, 0), "width"),
                                      ("softmax_forward", SoftmaxForward(9, 1, 1), "type"),
                                      ("adamw", Adamw(beta1=0.9, beta2=0.9), "step"),
                                      ("rotary_forward", Rotary(F32, 1, 1, 3, 3, 3), "width")):
            try:
                launch(library, name, arguments)
            except RuntimeError as error:
                assert word in str(error), str(error)
                continue
            raise AssertionError(f"{name}: a bad argument was accepted")

    tap.run("memory-bound kernels name a bad argument", errors)


# ---- Speed ------------------------------------------------------------------------------------------------------------


def times(library, tap, median_ms):
    """Ours beside PyTorch's and a copy of as many bytes."""
    for rows, width in ((16384, 4096), (32768, 768), (4096, 16384), (1024, 65536)):
        x, y, dy = (torch.randn((rows, width), device="cuda").bfloat16() for _ in range(3))
        weight, mean, rstd = torch.ones(width, device="cuda").bfloat16(), torch.empty(rows, device="cuda"), torch.empty(rows, device="cuda")
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        cases = (("rmsnorm", "norm_forward", NormForward(BF16, rows, width, 1e-5, False, x.data_ptr(), None, weight.data_ptr(), None,
                                                         None, y.data_ptr(), None, rstd.data_ptr()),
                  lambda: torch.nn.functional.rms_norm(x, (width,), weight)),
                 ("layernorm", "norm_forward", NormForward(BF16, rows, width, 1e-5, True, x.data_ptr(), None, weight.data_ptr(),
                                                           weight.data_ptr(), None, y.data_ptr(), mean.data_ptr(), rstd.data_ptr()),
                  lambda: torch.nn.functional.layer_norm(x, (width,), weight, weight)),
                 ("softmax", "softmax_forward", SoftmaxForward(BF16, rows, width, x.data_ptr(), y.data_ptr()),
                  lambda: torch.softmax(x, 1)))
        for name, function, arguments, theirs in cases:
            call = getattr(library.lib, f"tk_{function}")
            ours_ms, theirs_ms, copy_ms = median_ms([lambda: library.check(call(ctypes.byref(arguments), stream)), theirs,
                                                     lambda: dy.copy_(x)])
            gbps = 4e-6 * rows * width
            print(f"# {name} {rows}x{width} bf16: ours {gbps / ours_ms:.0f} GB/s, PyTorch {gbps / theirs_ms:.0f}, copy "
                  f"{gbps / copy_ms:.0f}, share of the copy {copy_ms / ours_ms:.3f}", flush=True)
