#!/usr/bin/env python3
"""kernels_test.py - the kernels of the shared library against float64 in PyTorch; and beside PyTorch's own, timed.

    kernels_test.py [-t] [-k NAME,...] LIBRARY        LIBRARY: .libs/libtrkernels.so of a build with CUDA

Prints TAP. Without -t: values, at each layout, around tile edges, with small whole numbers (which must be exact),
strides, epilogues and beta. With -t also the matmul's speed beside cuBLAS through PyTorch, in rounds, in random order.
"""
import argparse
import ctypes
import itertools
import math
import random
import sys

try:
    import torch
except ImportError:
    print("1..0 # SKIP PyTorch is not installed here")
    sys.exit(0)

if not torch.cuda.is_available():
    print("1..0 # SKIP PyTorch sees no GPU here")
    sys.exit(0)

import kernels_rows  # beside this file; needs PyTorch

F32, BF16 = 0, 1
NN, NT, TN = 0, 1, 2
LAYOUTS = {NN: "NN", NT: "NT", TN: "TN"}
NONE, GELU, SILU_GATE, RESIDUAL = 0, 1, 2, 3
EPILOGUES = {NONE: "none", GELU: "gelu", SILU_GATE: "silu_gate", RESIDUAL: "residual"}
TYPES = {F32: torch.float32, BF16: torch.bfloat16}


class Matmul(ctypes.Structure):
    """struct tk_matmul of src/kernels/matmul.h"""

    _fields_ = (
        [(name, ctypes.c_size_t) for name in ("m", "n", "k")]
        + [(name, ctypes.c_void_p) for name in ("a", "b", "c", "bias", "z")]
        + [(name, ctypes.c_size_t) for name in ("lda", "ldb", "ldc", "ldz")]
        + [(name, ctypes.c_int) for name in ("in_", "out", "layout", "epilogue")]
        + [("beta", ctypes.c_float), ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t)]
    )


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.tk_last_error.restype = ctypes.c_char_p
        for name in ("tk_matmul", "tk_matmul_plain", "tk_matmul_f32"):
            getattr(self.lib, name).argtypes = [ctypes.POINTER(Matmul), ctypes.c_void_p]
        self.lib.tk_matmul_with_tile.argtypes = [ctypes.POINTER(Matmul), ctypes.c_int, ctypes.c_void_p]
        self.lib.tk_matmul_workspace.argtypes = [ctypes.POINTER(Matmul), ctypes.POINTER(ctypes.c_size_t)]
        self.lib.tk_matmul_describe.argtypes = [ctypes.POINTER(Matmul), ctypes.c_char_p, ctypes.c_size_t]

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.tk_last_error().decode())

    def describe(self, problem):
        text = ctypes.create_string_buffer(128)
        self.check(self.lib.tk_matmul_describe(problem, text, len(text)))
        return text.value.decode()


class Tap:
    """Prints a line a test; a test fails by an exception."""

    def __init__(self):
        self.count = self.failed = 0

    def run(self, name, function):
        self.count += 1
        try:
            function()
            print(f"ok {self.count} - {name}", flush=True)
        except (AssertionError, RuntimeError) as error:
            self.failed += 1
            why = str(error).splitlines()[0] if str(error) else repr(error)
            print(f"not ok {self.count} - {name}\n# {why}", flush=True)

    def finish(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)


# ---- Matmul ------------------------------------------------------------------------------------------------------


def matrix(rows, columns, stride, offset, dtype, whole, generator):
    """rows x columns, `stride` apart, `offset` elements into memory of its own, NaN around it."""
    memory = torch.full((offset + rows * stride + 16,), math.nan, dtype=dtype, device="cuda")
    view = memory[:0].view(0, columns)
    if rows:
        view = memory[offset : offset + rows * stride].view(rows, stride)[:, :columns]
    if whole:
        values = torch.randint(-4, 5, (rows, columns), device="cuda", generator=generator).to(dtype)
    else:
        values = torch.randn((rows, columns), device="cuda", generator=generator).to(dtype)
    view.copy_(values)
    return memory, view


class Problem:
    """A product's operands, and what it should be."""

    def __init__(self, m, n, k, layout=NN, in_=BF16, out=BF16, epilogue=NONE, beta=0.0, bias=False, gap=0, offset=0,
                 whole=False, seed=1):
        g = torch.Generator(device="cuda").manual_seed(seed)
        tin, tout = TYPES[in_], TYPES[out]
        a_shape, b_shape = ((k, m) if layout == TN else (m, k)), ((n, k) if layout == NT else (k, n))
        self.beta, self.whole, self.k = beta, whole, k
        self.keep_a, self.a = matrix(*a_shape, a_shape[1] + gap, offset, tin, whole, g)
        self.keep_b, self.b = matrix(*b_shape, b_shape[1] + gap, offset, tin, whole, g)
        self.keep_c, self.c = matrix(m, n, n + gap, offset, tout, whole, g)
        self.keep_z, self.z = matrix(m, n, n + gap, offset, tin, whole, g)
        self.keep_bias, bias_view = matrix(1, n, n, offset, tin, whole, g)
        self.bias = bias_view[0] if n and bias else None
        self.layout, self.epilogue, self.out = layout, epilogue, out
        self.has_z = epilogue in (SILU_GATE, RESIDUAL)
        self.before = self.keep_c.clone()
        self.wanted, self.magnitude = self.reference()
        if beta == 0:
            self.c.fill_(math.nan)  # beta = 0 must not read it
            self.before = self.keep_c.clone()
        size = self.keep_a.element_size()
        self.struct = Matmul(
            m, n, k, self.keep_a.data_ptr() + offset * size, self.keep_b.data_ptr() + offset * size,
            self.keep_c.data_ptr() + offset * self.keep_c.element_size(),
            self.keep_bias.data_ptr() + offset * size if bias else None,
            self.keep_z.data_ptr() + offset * size if self.has_z else None,
            a_shape[1] + gap, b_shape[1] + gap, n + gap, n + gap, in_, out, layout, epilogue, beta, None, 0)

    def reference(self):
        a, b = self.a.double(), self.b.double()
        a, b = (a.T if self.layout == TN else a), (b.T if self.layout == NT else b)
        x, magnitude = a @ b, a.abs() @ b.abs()
        if self.beta:
            x = x + self.beta * self.c.double()
        if self.bias is not None:
            x = x + self.bias.double()
        z = self.z.double()
        if self.epilogue == GELU:
            x = torch.nn.functional.gelu(x, approximate="tanh")
        elif self.epilogue == SILU_GATE:
            x = torch.nn.functional.silu(z) * x
            magnitude = magnitude * (1 + z.abs())
        elif self.epilogue == RESIDUAL:
            x = x + z
        return x, magnitude

    def verify(self, what):
        torch.cuda.synchronize()
        got = self.c.double()
        if self.whole and self.epilogue in (NONE, RESIDUAL):
            # whole numbers: the sum is exact in f32, and is rounded once
            wanted = self.wanted.float().to(TYPES[self.out]).double()
            assert torch.equal(got, wanted), f"{what}: not exact, {int((got != wanted).sum())} elements differ"
        else:
            unit = 2.0**-8 if self.out == BF16 else 2.0**-22
            # the sum's own rounding: f32 steps, each relative to what has been added up
            bound = unit * self.wanted.abs() + 2.0**-22 * (self.magnitude * max(1, self.k / 64) + 4)
            excess = ((got - self.wanted).abs() - bound).max().item() if got.numel() else -1
            assert excess <= 0, f"{what}: an element is off by {excess:.3g} more than rounding allows"  # NaN fails too
        # nothing around C has changed
        self.c.zero_()
        around = self.keep_c.clone()
        rows, stride = self.c.shape[0], self.struct.ldc
        offset = (self.struct.c - self.keep_c.data_ptr()) // self.keep_c.element_size()
        if rows:
            self.before[offset : offset + rows * stride].view(rows, stride)[:, : self.c.shape[1]].zero_()
        same = torch.equal(around.view(torch.uint8), self.before.view(torch.uint8))
        assert same, f"{what}: memory around C has changed"


def run(library, problem, how):
    """how: "auto", "plain", "f32", or a tile's number."""
    stream = torch.cuda.current_stream().cuda_stream
    lib = library.lib
    if how == "auto":
        bytes_ = ctypes.c_size_t()
        library.check(lib.tk_matmul_workspace(problem.struct, ctypes.byref(bytes_)))
        if bytes_.value:
            problem.workspace = torch.full((bytes_.value,), 255, dtype=torch.uint8, device="cuda")
            problem.struct.workspace, problem.struct.workspace_bytes = problem.workspace.data_ptr(), bytes_.value
        library.check(lib.tk_matmul(problem.struct, stream))
    elif how == "plain":
        library.check(lib.tk_matmul_plain(problem.struct, stream))
    elif how == "f32":
        library.check(lib.tk_matmul_f32(problem.struct, stream))
    else:
        library.check(lib.tk_matmul_with_tile(problem.struct, how, stream))


def try_all(library, hows, problems):
    for arguments in problems:
        for how in hows:
            problem = Problem(**arguments)
            run(library, problem, how)
            problem.verify(f"{how} {LAYOUTS[arguments.get('layout', NN)]} {arguments}")


def edges(*sides):
    return sorted({max(0, side + d) for side in sides for d in (-1, 0, 1)})


def matmul_tests(library, tap):
    fast = torch.cuda.get_device_capability() == (9, 0)
    tiles = list(range(4)) if fast else []
    for layout in LAYOUTS:
        name = LAYOUTS[layout]

        # every alignment: the dispatcher takes odd ones to the plain path
        def sizes(layout=layout):
            shapes = itertools.product(edges(1, 128, 256), edges(1, 64, 192, 256), (1, 15, 16, 17, 64, 65))
            try_all(library, ["auto", "plain"],
                    [dict(m=m, n=n, k=k, layout=layout, whole=True, out=(m + n) % 2) for m, n, k in shapes])

        # sizes that the fast path serves are multiples of 8 in the contiguous dimension
        def tile_edges(layout=layout):
            ms, ns = (120, 128, 136, 248, 256, 264, 520), (8, 56, 64, 72, 120, 128, 184, 192, 200, 256, 264)
            shapes = itertools.product(ms, ns, (8, 56, 64, 72, 256, 264, 520))
            try_all(library, tiles, [dict(m=m, n=n, k=k, layout=layout, whole=True, out=BF16) for m, n, k in shapes])

        def odd_sides(layout=layout):
            # the dimension that is contiguous in no operand but C may be odd; then C cannot be stored by TMA
            shapes = [(m, n, k) for m in (127, 129, 255, 257) for n in (63, 65, 191, 193, 257) for k in (63, 65, 129)]
            if layout == NN:
                shapes = [(m, n // 8 * 8, k // 8 * 8) for m, n, k in shapes]
            elif layout == NT:
                shapes = [(m, n, k // 8 * 8) for m, n, k in shapes]
            else:
                shapes = [(m // 8 * 8, n // 8 * 8, k) for m, n, k in shapes]
            try_all(library, tiles, [dict(m=m, n=n, k=k, layout=layout, whole=True, out=(m + n + k) % 2)
                                     for m, n, k in shapes])

        def strides(layout=layout):
            for gap, offset in ((8, 0), (8, 8), (1, 0), (0, 1), (3, 5), (64, 16)):
                try_all(library, ["auto", "plain"],
                        [dict(m=200, n=152, k=136, layout=layout, gap=gap, offset=offset, whole=True, out=out,
                              beta=beta)
                         for out in (F32, BF16) for beta in (0.0, 1.0)])

        def epilogues(layout=layout):
            for out, epilogue, beta, bias, gap in itertools.product(
                    (F32, BF16), EPILOGUES, (0.0, 1.0, -0.5), (False, True), (0, 1)):
                try_all(library, ["auto", "plain"] + (tiles if gap == 0 else []),
                        [dict(m=264, n=200, k=136, layout=layout, out=out, epilogue=epilogue, beta=beta, bias=bias,
                              gap=gap)])

        def many_tiles(layout=layout):
            # more tiles than multiprocessors, several rounds of the ring
            try_all(library, ["auto", "plain"] + tiles,
                    [dict(m=4104, n=2056, k=1096, layout=layout, out=BF16),
                     dict(m=4096, n=2048, k=1024, layout=layout, out=F32, beta=1.0, bias=True)])

        def slices(layout=layout):
            for m, n, k in ((256, 192, 16384), (768, 768, 8192), (264, 136, 4104)):
                try_all(library, ["auto"], [dict(m=m, n=n, k=k, layout=layout, out=out, beta=beta, bias=True, gap=gap)
                                            for out in (F32, BF16) for beta in (0.0, 1.0) for gap in (0, 8)])

        def empty(layout=layout):
            for m, n, k in ((0, 8, 8), (8, 0, 8), (8, 8, 0), (0, 0, 0), (136, 72, 0)):
                try_all(library, ["auto"], [dict(m=m, n=n, k=k, layout=layout, beta=beta, bias=True, whole=True)
                                            for beta in (0.0, 1.0)])

        def f32(layout=layout):
            shapes = itertools.product((1, 63, 64, 65, 130), (1, 63, 65, 128), (0, 1, 15, 16, 17, 100))
            try_all(library, ["auto"], [dict(m=m, n=n, k=k, layout=layout, in_=F32, out=F32, gap=m % 3, bias=n % 2 == 0,
                                             beta=float(k % 2)) for m, n, k in shapes])

        tests = (sizes, strides, epilogues, many_tiles, slices, empty, f32)
        for test in tests + ((tile_edges, odd_sides) if fast else ()):
            tap.run(f"matmul {name} {test.__name__}", test)

    def repeated():
        first = None
        for _ in range(20):
            problem = Problem(768, 768, 8192, layout=TN)
            run(library, problem, "auto")
            torch.cuda.synchronize()
            first = problem.c.clone() if first is None else first
            assert torch.equal(first, problem.c), "the same product differs between runs"

    def chained():
        # each product reads what the one before wrote: launches overlap, and must still wait
        g = torch.Generator(device="cuda").manual_seed(3)
        x = torch.randint(-1, 2, (512, 512), device="cuda", generator=g).bfloat16()
        w = torch.eye(512, device="cuda").roll(1, 1).bfloat16().contiguous()
        now, then = x.clone(), torch.empty_like(x)
        for _ in range(512):
            problem = Matmul(512, 512, 512, now.data_ptr(), w.data_ptr(), then.data_ptr(), None, None, 512, 512, 512, 0,
                             BF16, BF16, NN, NONE, 0.0, None, 0)
            library.check(library.lib.tk_matmul(problem, torch.cuda.current_stream().cuda_stream))
            now, then = then, now
        torch.cuda.synchronize()
        assert torch.equal(now, x), "512 shifts by one column do not come back to the start"

    def linear_layer():
        # Y = X W^T and its gradients, in bf16, against autograd in float64
        rows, inner, outer = 520, 264, 392
        shapes = ((rows, inner), (outer, inner), (rows, outer))
        x, w, dy = (torch.randn(shape, device="cuda").bfloat16() for shape in shapes)
        xd, wd = x.double().requires_grad_(), w.double().requires_grad_()
        y = xd @ wd.T
        y.backward(dy.double())
        products = ((NT, x, w, y.detach(), inner), (NN, dy, w, xd.grad, outer), (TN, dy, x, wd.grad, rows))
        for layout, a, b, wanted, k in products:
            c = torch.full(wanted.shape, math.nan, device="cuda")
            problem = Matmul(c.shape[0], c.shape[1], k, a.data_ptr(), b.data_ptr(), c.data_ptr(), None, None, a.shape[1],
                             b.shape[1], c.shape[1], 0, BF16, F32, layout, NONE, 0.0, None, 0)
            library.check(library.lib.tk_matmul(problem, torch.cuda.current_stream().cuda_stream))
            torch.cuda.synchronize()
            worst = (c.double() - wanted).abs().max().item()
            assert worst <= 2.0**-16 * k, f"{LAYOUTS[layout]}: off by {worst:.3g}"

    def errors():
        problem = Problem(16, 16, 16)
        problem.struct.lda = 8
        try:
            run(library, problem, "auto")
        except RuntimeError as error:
            assert "lda" in str(error), str(error)
            return
        raise AssertionError("an lda that is too small was accepted")

    tap.run("matmul the same from run to run", repeated)
    tap.run("matmul chained launches", chained)
    tap.run("matmul a linear layer and its gradients", linear_layer)
    tap.run("matmul names a bad argument", errors)


# ---- Speed -------------------------------------------------------------------------------------------------------


def median_ms(functions, rounds=15):
    """Each function's median time a call, in ms, in rounds, in random order."""
    times = [[] for _ in functions]
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for function in functions:
        function()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for i in random.sample(range(len(functions)), len(functions)):
            start.record()
            for _ in range(10):
                functions[i]()
            stop.record()
            stop.synchronize()
            times[i].append(start.elapsed_time(stop) / 10)
    return [sorted(t)[len(t) // 2] for t in times]


def matmul_times(library, _tap):
    shapes = [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 768, 768), (4096, 3072, 768), (4096, 768, 3072),
              (8192, 2304, 768), (8192, 2048, 2048), (16384, 8192, 2048), (16384, 1024, 4096), (32768, 768, 8192)]
    for (m, n, k), layout in itertools.product(shapes, LAYOUTS):
        a = torch.randn((k, m) if layout == TN else (m, k), device="cuda").bfloat16()
        b = torch.randn((n, k) if layout == NT else (k, n), device="cuda").bfloat16()
        c, d = (torch.empty((m, n), device="cuda", dtype=torch.bfloat16) for _ in range(2))
        problem = Matmul(m, n, k, a.data_ptr(), b.data_ptr(), c.data_ptr(), None, None, a.shape[1], b.shape[1], n, 0,
                         BF16, BF16, layout, NONE, 0.0, None, 0)
        ta, tb = (a.T if layout == TN else a), (b.T if layout == NT else b)
        stream = torch.cuda.current_stream().cuda_stream
        ours, theirs = median_ms([lambda: library.check(library.lib.tk_matmul(problem, stream)),
                                  lambda: torch.matmul(ta, tb, out=d)])
        tflops = 2e-9 * m * n * k
        print(f"# matmul {m}x{n}x{k} {LAYOUTS[layout]}: ours {tflops / ours:.1f} TFLOP/s ({library.describe(problem)}), "
              f"PyTorch {tflops / theirs:.1f}, ratio {theirs / ours:.3f}", flush=True)


TESTS = {
    "matmul": (matmul_tests, matmul_times),
    "norm": (kernels_rows.norm_tests, lambda library, tap: kernels_rows.times(library, tap, median_ms)),
    "softmax": (kernels_rows.softmax_tests, lambda library, tap: None),
    "step": (kernels_rows.step_tests, lambda library, tap: None),
}


def main():
    parser = argparse.ArgumentParser(description="Check the kernels on this GPU against PyTorch.")
    parser.add_argument("-t", "--time", action="store_true", help="also time them beside PyTorch's")
    parser.add_argument("-k", "--kernels", default=",".join(TESTS), help="which, separated by commas (all)")
    parser.add_argument("library", help="libtrkernels.so")
    arguments = parser.parse_args()
    library, tap = Library(arguments.library), Tap()
    for name in arguments.kernels.split(","):
        if name not in TESTS:
            parser.error(f"there is no kernel '{name}': {', '.join(TESTS)}")
        TESTS[name][0](library, tap)
        if arguments.time:
            TESTS[name][1](library, tap)
    tap.finish()


if __name__ == "__main__":
    main()
