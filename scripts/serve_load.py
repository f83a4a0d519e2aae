#!/usr/bin/env python3
"""Load on a running or freshly started `minfer serve`: how it stands a crowd, and how fast it is with eight clients.

    cargo build --release
    scripts/serve_load.py soak MODEL.gguf [--seconds 300] [--clients 64]
    scripts/serve_load.py speed MODEL.gguf [--threads 2] [--rounds 3]
    scripts/serve_load.py control MODEL.gguf [--seconds 60]

`soak` keeps --clients connections busy: chats of random length, half of them dropped in the middle of the stream, some read
slowly. At the end it waits for silence and checks: no answers but 200, 429 and 503; no more memory than `minfer plan` says;
every block of the cache free or kept for prefixes, none in use. It exits with 1 if one of these does not hold.

`speed` measures, over HTTP: tokens a second of eight streaming clients; the same of llama.cpp at batch 8, in turn, if
llama-cpp-python is there; the time to the first token of a ninth client with a prompt of about 200 tokens while eight
stream, beside that of an idle server.

`control` asks the control endpoints every 100 ms, from a process of its own, while seven clients stream, long prompts and
grammars arrive, and says how long each took. It exits with 1 if one answer took longer than --bound milliseconds.

Only Python's standard library is needed, and the server listens on this machine alone.
"""
import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they you".split()
ALLOWED = {200, 429, 503}
CONTROL = ["/health", "/metrics", "/slots", "/v1/models", "/props"]
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    },
}


def text(rng, n_words):
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


class Server:
    """The program, its port and its process."""

    def __init__(self, args, extra=()):
        self.port = args.port
        command = [args.minfer, "serve", args.model, "--port", str(args.port), "-t", str(args.threads), *extra]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def ready(self):
        for _ in range(600):
            try:
                status, _ = await self.get("/health")
                if status == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                sys.exit(f"the server ended with {self.process.returncode}")
            await asyncio.sleep(0.1)
        sys.exit("the server did not become ready within a minute")

    async def get(self, path):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    async def chat(self, prompt, max_tokens, seed=1, temperature=0.8, drop_after=None, pause=0.0, **more):
        """Streams an answer: status, seconds to the first token, tokens."""
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "seed": seed,
            "temperature": temperature,
            "ignore_eos": True,
            "stream": True,
            **more,
        }
        data = json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        start = time.perf_counter()
        writer.write(head.encode() + data)
        status, first, n = 0, None, 0
        try:
            status = int((await reader.readline()).split()[1])
            async for line in reader:
                if not line.startswith(b"data: {"):
                    continue
                choices = json.loads(line[6:]).get("choices") or [{}]
                if not choices[0].get("delta", {}).get("content"):
                    continue
                n += 1
                first = first or time.perf_counter() - start
                if drop_after is not None and n >= drop_after:
                    break
                if pause:
                    await asyncio.sleep(pause)
        finally:
            writer.close()
        return status, first, n

    async def metric(self, name):
        _, body = await self.get("/metrics")
        for line in body.decode().splitlines():
            if line.startswith(name + " ") or line.startswith(name + "_total "):
                return float(line.split()[1])
        sys.exit(f"/metrics has no {name}")

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("the server did not end within 20 seconds of SIGTERM")


async def soak(args):
    size = ["-np", "8", "-c", "8192"]
    plan = subprocess.run([args.minfer, "plan", args.model, *size, "--json"], capture_output=True, check=True)
    planned = json.loads(plan.stdout)["total"]
    server = Server(args, size)
    await server.ready()
    for seed in range(8):
        await server.chat("hello", 8, seed=seed)
    before, end = server.memory(), time.monotonic() + args.seconds
    counts, dropped = {}, 0

    async def client(number):
        nonlocal dropped
        rng = random.Random(number)
        while time.monotonic() < end:
            n_tokens = rng.randint(4, 120)
            drops, slow = rng.random() < 0.5, rng.random() < 0.1
            status, _, n = await server.chat(
                text(rng, rng.randint(1, 200)),
                n_tokens,
                seed=rng.randrange(1 << 30),
                drop_after=rng.randint(1, n_tokens) if drops else None,
                pause=0.2 if slow else 0.0,
            )
            counts[status] = counts.get(status, 0) + 1
            dropped += drops and status == 200
            if status != 200:
                await asyncio.sleep(rng.random())

    await asyncio.gather(*(client(number) for number in range(args.clients)))
    for _ in range(100):
        running = await server.metric("llamacpp:requests_processing")
        waiting = await server.metric("llamacpp:requests_deferred")
        if running == waiting == 0:
            break
        await asyncio.sleep(0.1)
    in_use = await server.metric("minfer:kv_blocks_held")
    after = server.memory()
    server.stop()
    mib = 1 << 20
    print(f"{sum(counts.values())} requests in {args.seconds} s by {args.clients} clients: {counts}, {dropped} dropped in the middle")
    print(f"at the end: {running:.0f} running, {waiting:.0f} waiting, {in_use:.0f} blocks in use")
    print(f"memory: {before // mib} MiB before, {after // mib} MiB after, {planned // mib} MiB planned")
    # The plan is the engine's; connections come on top.
    held = [set(counts) <= ALLOWED, running == waiting == in_use == 0, after < planned + 32 * mib]
    print("held" if all(held) else f"FAILED: statuses {held[0]}, all freed {held[1]}, memory {held[2]}")
    return 0 if all(held) else 1


def llama_batch(model, threads, n_seqs=8, n_tokens=64):
    """Tokens a second of llama.cpp with `n_seqs` sequences in each step, through its low-level calls."""
    program = f"""
import time
import llama_cpp as L
L.llama_backend_init()
mp = L.llama_model_default_params()
model = L.llama_model_load_from_file({model!r}.encode(), mp)
cp = L.llama_context_default_params()
cp.n_ctx, cp.n_batch, cp.n_seq_max, cp.n_threads, cp.n_threads_batch = 4096, 512, {n_seqs}, {threads}, {threads}
ctx = L.llama_init_from_model(model, cp)
vocab = L.llama_model_get_vocab(model)
n_vocab = L.llama_vocab_n_tokens(vocab)
batch = L.llama_batch_init({n_seqs}, 0, 1)
def step(position):
    batch.n_tokens = {n_seqs}
    for i in range({n_seqs}):
        batch.token[i] = (1000 + 31 * position + 7 * i) % n_vocab
        batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = position, 1, i, 1
    assert L.llama_decode(ctx, batch) == 0
for position in range(8):
    step(position)
start = time.perf_counter()
for position in range(8, 8 + {n_tokens}):
    step(position)
print({n_seqs} * {n_tokens} / (time.perf_counter() - start))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


async def eight(server, n_tokens, seed):
    rng = random.Random(seed)
    prompts = [text(rng, 20) for _ in range(8)]
    start = time.perf_counter()
    answers = await asyncio.gather(*(server.chat(p, n_tokens, seed=i) for i, p in enumerate(prompts)))
    return sum(n for _, _, n in answers) / (time.perf_counter() - start)


async def ninth(server, n_probes, busy):
    """Times to the first token of a prompt of some 200 tokens, each with words of its own."""
    rng = random.Random(7 if busy else 8)
    stop = False

    async def stream(number):
        while not stop:
            await server.chat(text(rng, 20), 200, seed=number)

    company = [asyncio.create_task(stream(number)) for number in range(8)] if busy else []
    await asyncio.sleep(2 if busy else 0)
    times = []
    for _ in range(n_probes):
        _, first, _ = await server.chat(text(rng, 190), 4)
        times.append(first)
        await asyncio.sleep(0.2)
    stop = True
    for task in company:
        task.cancel()
    await asyncio.gather(*company, return_exceptions=True)
    return sorted(times)


async def speed(args):
    server = Server(args, ["-np", "9", "-c", "4096"])
    await server.ready()
    await eight(server, 16, 0)
    ours, theirs = [], []
    for round_ in range(args.rounds):
        ours.append(await eight(server, 96, round_ + 1))
        theirs.append(llama_batch(args.model, args.threads))
    print(f"8 streaming clients: {statistics.median(ours):.0f} tokens/s {[round(x) for x in ours]}")
    if all(theirs):
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(f"llama.cpp at batch 8: {statistics.median(theirs):.0f} tokens/s {[round(x) for x in theirs]}; {ratio:.2f} times that")
    else:
        print("llama.cpp: not measured, llama-cpp-python is not there")
    idle = await ninth(server, args.probes, busy=False)
    busy = await ninth(server, args.probes, busy=True)
    server.stop()
    middle, worst = statistics.median(busy), busy[min(len(busy) - 1, int(len(busy) * 0.99))]
    print(f"first token of a ninth client: idle {statistics.median(idle):.3f} s, beside eight {middle:.3f} s ({middle / statistics.median(idle):.2f} times), p99 {worst:.3f} s, {len(busy)} probes")
    return 0


def probe(port, seconds, results):
    """Puts into `results` what `ask` found, or the error that kept it from that."""
    try:
        results.put(ask(port, seconds))
    except Exception as error:
        results.put(RuntimeError(f"a control endpoint did not answer: {error!r}"))


def ask(port, seconds):
    """Asks every control endpoint each 100 ms, each on a connection of its own; a process for itself, so that only the
    server makes it wait."""
    times, end = {path: [] for path in CONTROL}, time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        for path in CONTROL:
            asked = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            times[path].append(time.perf_counter() - asked)
            assert answer.status == 200, (path, answer.status)
        time.sleep(max(0.0, 0.1 - (time.monotonic() - start)))
    return times


async def control(args):
    server = Server(args, ["-np", "9", "-c", "4096"])
    await server.ready()
    results, stop, rng = multiprocessing.Queue(), False, random.Random(5)

    async def stream(number):
        while not stop:
            await server.chat(text(rng, 20), 200, seed=number)

    async def read():
        while not stop:
            await server.chat(text(rng, 1500), 4)

    async def constrain():
        seed = 0
        while not stop:
            seed += 1
            schema = {**SCHEMA, "maxItems": seed % 50 + 1}
            await server.chat(text(rng, 20), 60, seed=seed, ignore_eos=False, json_schema=schema)

    company = [asyncio.create_task(stream(number)) for number in range(7)]
    company += [asyncio.create_task(read()), asyncio.create_task(constrain())]
    await asyncio.sleep(2)
    prober = multiprocessing.Process(target=probe, args=(args.port, args.seconds, results))
    prober.start()
    times = await asyncio.get_running_loop().run_in_executor(None, results.get)
    prober.join()
    stop = True
    for task in company:
        task.cancel()
    await asyncio.gather(*company, return_exceptions=True)
    server.stop()
    if isinstance(times, Exception):
        raise times
    worst = 0.0
    for path, ms in {path: sorted(1e3 * t for t in all_) for path, all_ in times.items()}.items():
        worst = max(worst, ms[-1])
        print(f"{path:12} {len(ms)} times: p50 {statistics.median(ms):.1f} ms, p99 {ms[int(len(ms) * 0.99)]:.1f} ms, most {ms[-1]:.1f} ms")
    print("held" if worst <= args.bound else f"FAILED: {worst:.1f} ms are more than {args.bound} ms")
    return 0 if worst <= args.bound else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["soak", "speed", "control"])
    parser.add_argument("model")
    parser.add_argument("--minfer", default=os.path.join(ROOT, "target/release/minfer"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--probes", type=int, default=40)
    parser.add_argument("--bound", type=float, default=50.0)
    args = parser.parse_args()
    sys.exit(asyncio.run({"soak": soak, "speed": speed, "control": control}[args.what](args)))


if __name__ == "__main__":
    main()
