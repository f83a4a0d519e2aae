#!/usr/bin/env python3
"""Compare the speed of minfer with llama.cpp's, in turn, on the same file and the same number of threads.

    pip install llama-cpp-python        (built from source, with native flags)
    cargo build --release
    scripts/compare.py MODEL.gguf... [--threads 2] [--rounds 5] [--pp 512] [--tg 128] [--depth 0] [--minfer PATH]

Each round measures A B A B: reading a prompt of --pp tokens, then generating --tg tokens after --depth others. What is
printed are medians over the rounds, and the median of the ratios within a round, which holds when the machine's speed
drifts. Loading is not measured, and the first round of each is a warm-up that does not count.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def llama_worker(model, threads):
    """Answers lines of `pp N` and `tg N DEPTH` with seconds, until standard input ends."""
    import llama_cpp

    def load(n_ctx):
        return llama_cpp.Llama(
            model_path=model, n_ctx=n_ctx, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False
        )

    llm, n_ctx, held = None, 0, 0
    for line in sys.stdin:
        kind, n, depth = line.split()
        n, depth = int(n), int(depth)
        if llm is None or n + depth + 8 > n_ctx:
            n_ctx = n + depth + 8
            llm, held = load(n_ctx), 0
        vocab = llm.n_vocab()
        tokens = [(1000 + 7 * i) % vocab for i in range(max(n, depth, 1))]
        # The tokens of the depth stay from one measurement to the next; what came after them is dropped.
        if depth == 0 or depth != held:
            llm.reset()
            llm.eval(tokens[:depth]) if depth else None
            held = depth
        llm.n_tokens = depth
        start = time.perf_counter()
        if kind == "pp":
            llm.eval(tokens[:n])
        else:
            for token in tokens[:n]:
                llm.eval([token])
        print(time.perf_counter() - start, flush=True)


class Llama:
    def __init__(self, model, threads):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--llama-worker", model, "--threads", str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def measure(self, kind, n, depth):
        self.process.stdin.write(f"{kind} {n} {depth}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("compare.py: llama-cpp-python failed; is it installed for this Python?")
        return n / float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def minfer(binary, model, threads, kind, n, depth):
    sizes = ["-p", str(n), "-n", "0"] if kind == "pp" else ["-p", "0", "-n", str(n)]
    command = [binary, "bench", model, *sizes, "-d", str(depth), "-r", "1", "-t", str(threads), "-o", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        raise SystemExit(f"compare.py: failed: {' '.join(command)}")
    return json.loads(done.stdout)[0]["avg_ts"]


def compare(args, model):
    print(os.path.basename(model), f"({args.threads} threads, {args.rounds} rounds, tokens/s)")
    llama = Llama(model, args.threads)
    for kind, n in (("pp", args.pp), ("tg", args.tg)):
        if n == 0:
            continue
        ours, theirs = [], []
        for _ in range(args.rounds + 1):
            ours.append(minfer(args.minfer, model, args.threads, kind, n, args.depth))
            theirs.append(llama.measure(kind, n, args.depth))
        ratios = [a / b for a, b in zip(ours[1:], theirs[1:])]
        print(
            f"  {kind}{n}{f' @ {args.depth}' if args.depth else ''}: minfer {statistics.median(ours[1:]):.1f},"
            f" llama.cpp {statistics.median(theirs[1:]):.1f},"
            f" ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    llama.close()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", metavar="MODEL.gguf")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--pp", type=int, default=512, help="tokens of the prompt; 0 leaves it out")
    p.add_argument("--tg", type=int, default=128, help="tokens to generate; 0 leaves it out")
    p.add_argument("--depth", type=int, default=0, help="tokens before the measured ones")
    p.add_argument("--minfer", default=os.path.join(ROOT, "target", "release", "minfer"))
    p.add_argument("--llama-worker", metavar="MODEL", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.llama_worker:
        llama_worker(args.llama_worker, args.threads)
        return
    if not args.models:
        p.error("name at least one model file")
    for model in args.models:
        compare(args, model)


if __name__ == "__main__":
    main()
