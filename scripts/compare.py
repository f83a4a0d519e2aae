#!/usr/bin/env python3
"""Compare the speed of minfer with llama.cpp's, in turn, on the same file and the same number of threads.

    pip install llama-cpp-python        (built from source, with native flags)
    cargo build --release
    scripts/compare.py MODEL.gguf... [--threads 2] [--rounds 5] [--pp 512] [--tg 128] [--depth 0]
    scripts/compare.py MODEL.gguf --start          from the start to the first token, and peak memory, twice in a row
    scripts/compare.py MODEL.gguf --busy           both beside a process that wants a whole core
    scripts/compare.py MODEL.gguf --streams 8      eight sequences in every step (cargo build --release --examples first)

Each round measures A B A B: reading a prompt of --pp tokens, then generating --tg tokens after --depth others. What is
printed are medians over the rounds, and the median of the ratios within a round, which holds when the machine's speed
drifts. Loading is not measured (but for --start), and the first round of each is a warm-up that does not count.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

from serve_load import llama_batch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT = "The quick brown fox jumps over the lazy dog, and then it goes back home to sleep until morning."


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


def llama_first_token(model, threads):
    """Loads, reads PROMPT and picks a token; prints the seconds that took, without those of starting Python."""
    import llama_cpp

    start = time.perf_counter()
    llm = llama_cpp.Llama(
        model_path=model, n_ctx=4096, n_threads=threads, n_threads_batch=threads, verbose=False
    )
    llm.eval(llm.tokenize(PROMPT.encode()))
    llm.sample(temp=0.0)
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
    return json.loads(done.stdout)[0]


def run_to_end(command):
    """Seconds and peak megabytes of a process, and what it printed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"compare.py: failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024, printed


def compare_starts(args, model):
    """From the start of the process to its first token, which is also its last; the file is in the page cache.

    Each engine runs twice in a row. The second run gets the memory that the first one gave back; the first one gets what
    was idle, which a virtual machine may have returned to its host and must then have again, page by page.
    """
    ours, theirs = [], []
    threads = str(args.threads)
    command = [args.minfer, "generate", model, "-p", PROMPT, "-n", "1", "-c", "4096", "--greedy", "-t", threads]
    worker = [sys.executable, os.path.abspath(__file__), "--llama-first-token", model, "--threads", threads]

    def llama():
        _, megabytes, printed = run_to_end(worker)
        return float(printed.splitlines()[-1]), megabytes

    for _ in range(args.rounds + 1):
        ours.append([run_to_end(command)[:2] for _ in range(2)])
        theirs.append([llama() for _ in range(2)])
    figures = (("s to the first token, after another program", 0, 0), ("s to the first token, again", 1, 0), ("MB at most", 1, 1))
    for name, run, i in figures:
        a, b = [x[run][i] for x in ours[1:]], [x[run][i] for x in theirs[1:]]
        ratio = statistics.median(x / y for x, y in zip(a, b))
        print(f"  {name}: minfer {statistics.median(a):.2f}, llama.cpp {statistics.median(b):.2f}, ratio {ratio:.2f}")


def compare_streams(args, model):
    """Tokens a second of one sequence and of several in every step, without their prompts."""
    example = os.path.join(os.path.dirname(args.minfer), "examples", "company")
    ours, gains, theirs = [], [], []
    for _ in range(args.rounds + 1):
        _, _, printed = run_to_end([example, model, str(args.streams), "0"])
        one, several = re.search(r"1 stream ([0-9.]+) .* streams ([0-9.]+)", printed).groups()
        ours.append(float(several))
        gains.append(float(several) / float(one))
        theirs.append(llama_batch(model, args.threads, args.streams, 96))
        if theirs[-1] is None:
            raise SystemExit("compare.py: llama-cpp-python failed; is it installed for this Python?")
    ratios = [a / b for a, b in zip(ours[1:], theirs[1:])]
    print(
        f"  {args.streams} streams: minfer {statistics.median(ours[1:]):.1f}, {statistics.median(gains[1:]):.2f} times one;"
        f" llama.cpp {statistics.median(theirs[1:]):.1f}, ratio {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def compare(args, model):
    llama = Llama(model, args.threads)
    for kind, n in (("pp", args.pp), ("tg", args.tg)):
        if n == 0:
            continue
        ours, theirs, limits = [], [], []
        for _ in range(args.rounds + 1):
            result = minfer(args.minfer, model, args.threads, kind, n, args.depth)
            ours.append(result["avg_ts"])
            limits.append(result["peak_percent" if kind == "pp" else "read_percent"])
            theirs.append(llama.measure(kind, n, args.depth))
        ratios = [a / b for a, b in zip(ours[1:], theirs[1:])]
        print(
            f"  {kind}{n}{f' @ {args.depth}' if args.depth else ''}: minfer {statistics.median(ours[1:]):.1f},"
            f" llama.cpp {statistics.median(theirs[1:]):.1f},"
            f" ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f});"
            f" minfer reached {statistics.median(limits[1:]):.0f} % of the"
            f" {'dot product peak' if kind == 'pp' else 'read bandwidth'}"
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
    p.add_argument("--start", action="store_true", help="measure from the start to the first token instead")
    p.add_argument("--streams", type=int, default=0, help="measure so many sequences in every step instead")
    p.add_argument("--busy", action="store_true", help="measure beside a process that wants a whole core")
    p.add_argument("--llama-first-token", metavar="MODEL", help=argparse.SUPPRESS)
    p.add_argument("--llama-worker", metavar="MODEL", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.llama_worker:
        llama_worker(args.llama_worker, args.threads)
        return
    if args.llama_first_token:
        llama_first_token(args.llama_first_token, args.threads)
        return
    if not args.models:
        p.error("name at least one model file")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if args.busy else None
    try:
        for model in args.models:
            print(os.path.basename(model), f"({args.threads} threads, {args.rounds} rounds, tokens/s)")
            run = compare_starts if args.start else compare_streams if args.streams else compare
            run(args, model)
    finally:
        if busy:
            busy.kill()


if __name__ == "__main__":
    main()
