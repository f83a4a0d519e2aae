// A server that speaks as much of the interface as the pages need, and tells the same story each time: for working on the
// pages without a model, and for what a real model would not do on demand. `npm run dev`, then http://127.0.0.1:8099.
//
// Words in the question choose what happens: "slow", "long", "code", "think", "tool", "busy", "broken", "cut", "full", "markdown".
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { samples } from "./samples.mjs";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8" };
/** As the real server sends it. */
const POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts the server; `key` is the API key it wants, if any. Returns its address and the requests it was sent. */
export async function startMock({ port = 0, key } = {}) {
  const requests = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    if (path === "/" || path === "/graph") return file(response, path === "/" ? "chat.html" : "graph.html");
    if (path.startsWith("/assets/")) return file(response, path.slice("/assets/".length));
    if (key && request.headers.authorization !== `Bearer ${key}`) return fail(response, 401, "an API key is needed");
    if (path === "/v1/models") return json(response, { object: "list", data: [{ id: "mock-1b", object: "model", meta: { n_ctx: 4096 } }] });
    if (path === "/props") {
      const params = { temperature: 0.7, top_k: 40, top_p: 0.95, min_p: 0.05, repeat_penalty: 1, seed: -1, n_predict: -1 };
      return json(response, { default_generation_settings: { n_ctx: 4096, params } });
    }
    if (path === "/v1/chat/completions") return void chat(request, response, requests);
    return fail(response, 404, `there is nothing at ${path}`);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, close: () => (server.closeAllConnections(), server.close()) };
}

function file(response, name) {
  const path = join(dist, name);
  if (!/^[a-z.-]+$/.test(name) || !existsSync(path)) return fail(response, 404, "no such file");
  response.writeHead(200, { "Content-Type": TYPES[extname(name)], "Content-Security-Policy": POLICY });
  response.end(readFileSync(path));
}

function json(response, value) {
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}

function fail(response, status, message, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message, type: "invalid_request_error" } }));
}

async function chat(request, response, requests) {
  let text = "";
  for await (const part of request) text += part;
  const body = JSON.parse(text);
  const seen = { body, gone: false };
  requests.push(seen);
  const question = body.messages.at(-1)?.content ?? "";
  const wants = (word) => new RegExp(`\\b${word}\\b`, "i").test(question);
  if (wants("busy")) return fail(response, 503, "the queue is full", { "Retry-After": "3" });
  if (wants("full")) return fail(response, 400, "the prompt has 5000 tokens, the context 4096");
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.on("close", () => (seen.gone = !response.writableFinished));
  const send = (delta, more = {}) => {
    const chunk = { id: "m", object: "chat.completion.chunk", model: "mock-1b", choices: [{ index: 0, delta, finish_reason: null }], ...more };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  send({ role: "assistant", content: "" });
  const pause = wants("slow") ? 40 : wants("long") ? 0 : 4;
  let n = 0;
  for (const delta of deltas(wants, requests.length)) {
    if (seen.gone) return;
    if (n === body.max_tokens) break;
    if (wants("cut") && n === 12) return response.destroy();
    if (wants("broken") && n === 12) {
      response.write(`data: ${JSON.stringify({ error: { message: "the device was lost" } })}\n\n`);
      return response.end();
    }
    send(delta);
    n++;
    await sleep(pause);
  }
  const finish_reason = wants("tool") ? "tool_calls" : n >= (body.max_tokens ?? Infinity) ? "length" : "stop";
  send({}, { choices: [{ index: 0, delta: {}, finish_reason }], timings: { cache_n: 96, predicted_n: n, predicted_per_second: 1000 / Math.max(pause, 1) } });
  send({}, { choices: [], usage: { prompt_tokens: 120, completion_tokens: n, prompt_tokens_details: { cached_tokens: 96 } } });
  response.write("data: [DONE]\n\n");
  response.end();
}

function* deltas(wants, nth) {
  if (wants("think")) for (const word of words(samples.thinking)) yield { reasoning_content: word };
  if (wants("tool")) {
    yield { tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "get_weather", arguments: "" } }] };
    for (const part of ['{"city": ', '"Oslo", ', '"unit": "C"}']) yield { tool_calls: [{ index: 0, function: { arguments: part } }] };
    return;
  }
  const text = wants("markdown") ? samples.markdown : wants("code") ? samples.code : wants("long") ? samples.long : `${samples.short} (${nth})`;
  for (const word of words(text)) yield { content: word };
}

function words(text) {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startMock({ port: 8099, key: process.env.MOCK_KEY });
  console.log(url);
}
