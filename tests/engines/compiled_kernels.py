"""The kernels of a card, compiled for the processor: their own sources, between a few lines that stand in for CUDA.

So the numbers that they make can be compared with those of the processor where there is no card. Threads of a block
take turns, from one `__syncthreads` to the next; blocks come one after the other. Neither tells how a card orders
anything, and it is not quick.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacbandits.engines.cuda.card import source_of

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++ to compile the kernels of a card with")
# As engines/cuda/card.py tells the compiler of a card: products are never fused with sums.
OPTIONS = ("-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w")

BEFORE = """
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>
using std::isnan;
using std::max;
using std::min;
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads)
struct Index { int x, y; };
static Index threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t scheduler;
static ucontext_t* running;
static void __syncthreads() { swapcontext(running, &scheduler); }
template <class T> T atomicAdd(T* at, T value) { T was = *at; *at += value; return was; }
static long long __double2ll_rn(double x) { return llrint(x); }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
"""
AFTER = """
static std::function<void()> body;
static std::vector<char> done;
static void enter(int thread) { body(); done[thread] = 1; }
template <class... P, size_t... I>
static void prepare(void (*kernel)(P...), void** given, std::index_sequence<I...>) {
    body = [=] { kernel(*(P*)given[I]...); };
}
template <class... P> static void prepare(void (*kernel)(P...), void** given) {
    prepare(kernel, given, std::index_sequence_for<P...>());
}
static void run_block(int threads) {
    std::vector<ucontext_t> contexts(threads);
    std::vector<char> stacks((size_t)threads << 16);
    done.assign(threads, 0);
    for (int t = 0; t < threads; t++) {
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = &stacks[(size_t)t << 16];
        contexts[t].uc_stack.ss_size = 1 << 16;
        contexts[t].uc_link = &scheduler;
        makecontext(&contexts[t], (void (*)())enter, 1, t);
    }
    for (int left = threads; left > 0;) {
        for (int t = 0; t < threads; t++) {
            if (done[t]) continue;
            threadIdx = {t, 0};
            running = &contexts[t];
            swapcontext(&scheduler, running);
            left -= done[t];
        }
    }
}
extern "C" void launch(int x, int y, int threads, void** given) {
    prepare(KERNEL, given);
    gridDim = {x, y}, blockDim = {threads, 1};
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) run_block(threads);
}
"""


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kernels-"))


@cache
def compile_kernel(source: str, kernel: str, told: tuple[tuple[str, int], ...] = ()) -> Callable[..., None]:
    """A kernel of this source as CuPy has it: called with a grid, the threads of a block, and what it is given."""
    assert COMPILER is not None
    fixed = re.sub(r"extern __shared__ (\w+) (\w+)\[\]", r"static \1 \2[1 << 17]", source)
    place = _folder() / f"{kernel}-{len(list(_folder().iterdir()))}"
    place.with_suffix(".cc").write_text(BEFORE + fixed + AFTER.replace("KERNEL", kernel), encoding="utf-8")
    defined = [f"-D{key}={value}" for key, value in told]
    files = ["-o", str(place.with_suffix(".so")), str(place.with_suffix(".cc"))]
    subprocess.run([COMPILER, *OPTIONS, *defined, *files], check=True)
    launch = ctypes.CDLL(str(place.with_suffix(".so"))).launch

    def call(grid: tuple[int, ...], block: tuple[int, ...], given: tuple[Any, ...], *, shared_mem: int = 0) -> None:
        assert shared_mem <= 8 << 17
        kept = [_as_bytes(one) for one in given]
        places = (ctypes.c_void_p * len(kept))(*(one.ctypes.data for one in kept))
        launch(grid[0], grid[1] if len(grid) > 1 else 1, block[0], places)

    return call


def compiled_function(name: str, kernel: str, **told: int) -> Callable[..., None]:
    """In the place of `pacbandits.engines.cuda.card.function`."""
    return compile_kernel(source_of(name), kernel, tuple(sorted(told.items())))


def _as_bytes(given: Any) -> np.ndarray:
    """What a kernel reads an argument from: a number, or where an array lies."""
    if isinstance(given, np.ndarray):
        return np.array([given.ctypes.data], dtype=np.uint64)
    assert isinstance(given, np.number)
    return np.array([given])
