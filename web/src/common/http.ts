// Requests to the server that this page came from, and what went wrong in words that say what to do.
import { load, save } from "./storage.ts";

const KEY = "minfer.key";

export function apiKey(): string {
  return load(KEY) ?? "";
}

export function setApiKey(key: string): void {
  save(KEY, key.trim() === "" ? null : key.trim());
}

/** What went wrong: `title` in plain words, `advice` for what to do, `detail` as the server put it. */
export interface Problem {
  kind: "unreachable" | "key" | "busy" | "request" | "server" | "broken";
  title: string;
  advice: string;
  detail?: string;
}

export class RequestError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.title);
    this.problem = problem;
  }
}

/** Sends a request to `path` (relative, so that the pages work behind a prefix). Throws a RequestError unless it is answered
 * with success, and passes an abort on as it is. */
export async function request(path: string, options: { json?: unknown; signal?: AbortSignal } = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  if (apiKey() !== "") headers["Authorization"] = `Bearer ${apiKey()}`;
  const init: RequestInit = { headers, signal: options.signal ?? null };
  if (options.json !== undefined) {
    headers["Content-Type"] = "application/json";
    init.method = "POST";
    init.body = JSON.stringify(options.json);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new RequestError(UNREACHABLE);
  }
  if (!response.ok) throw new RequestError(await problemOf(response));
  return response;
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

export const UNREACHABLE: Problem = {
  kind: "unreachable",
  title: "The server does not answer.",
  advice: "Check that minfer serve is still running, then try again.",
};

export const BROKEN: Problem = {
  kind: "broken",
  title: "The connection broke before the answer was complete.",
  advice: "What came until then is kept. Try again to have it written anew.",
};

async function problemOf(response: Response): Promise<Problem> {
  const detail = await errorMessage(response);
  const said = detail === undefined ? {} : { detail };
  switch (response.status) {
    case 401:
    case 403:
      return { kind: "key", title: "The server wants an API key.", advice: "Enter it in the settings, then try again.", ...said };
    case 429:
    case 503:
      return { kind: "busy", title: "The server is busy.", advice: waitAdvice(response), ...said };
    case 413:
      return { kind: "request", title: "The request is too large for the server.", advice: "Attach less, or begin a new conversation.", ...said };
  }
  if (response.status >= 500) {
    return { kind: "server", title: "The server failed.", advice: "Try again; its log says more.", ...said };
  }
  return { kind: "request", title: "The server refused the request.", advice: refusalAdvice(detail ?? ""), ...said };
}

function waitAdvice(response: Response): string {
  const seconds = Number(response.headers.get("Retry-After"));
  return seconds > 0 ? `Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.` : "Try again in a moment.";
}

function refusalAdvice(detail: string): string {
  return /context|too long|n_ctx/i.test(detail)
    ? "The conversation no longer fits into the model's context: begin a new one, or edit an earlier message to be shorter."
    : "Change what it names, then try again.";
}

/** The message of an error body in OpenAI's shape, or the beginning of whatever else came. */
async function errorMessage(response: Response): Promise<string | undefined> {
  const text = await response.text().catch(() => "");
  try {
    const message: unknown = JSON.parse(text)?.error?.message;
    if (typeof message === "string") return message;
  } catch {
    // Not JSON: a proxy's page, say.
  }
  return text.trim() === "" ? undefined : text.trim().slice(0, 300);
}
