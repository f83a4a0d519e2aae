// What goes to the server and what comes back: OpenAI's chat completions, streamed.
import { BROKEN, request, RequestError, type Problem } from "../common/http.ts";
import { serverSentEvents } from "../common/sse.ts";
import type { Sampling } from "./settings.ts";
import type { Attachment, Message, Stats, Talk, ToolCall } from "./types.ts";
import { pathTo } from "./tree.ts";

interface WireMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** One part of an answer, as it comes. */
export interface Delta {
  content?: string;
  reasoning?: string;
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
  finish?: "stop" | "length" | "tool_calls";
  model?: string;
  stats?: Stats;
}

/** The messages that lead to `leaf`, as the server wants them. */
export function wireMessages(talk: Talk, leaf: string): WireMessage[] {
  const messages: WireMessage[] = talk.system.trim() === "" ? [] : [{ role: "system", content: talk.system }];
  for (const message of pathTo(talk, leaf)) {
    // An answer that failed before its first word is nothing that was said.
    if (message.role === "assistant" && message.content === "" && !message.toolCalls?.length) continue;
    const next = wireMessage(message);
    const last = messages.at(-1);
    if (next.role === "user" && last?.role === "user") last.content += `\n\n${next.content}`;
    else messages.push(next);
  }
  return messages;
}

function wireMessage(message: Message): WireMessage {
  const wire: WireMessage = { role: message.role, content: withAttachments(message.content, message.attachments ?? []) };
  if (message.toolCalls?.length) {
    wire.tool_calls = message.toolCalls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.arguments },
    }));
  }
  if (message.toolCallId !== undefined) wire.tool_call_id = message.toolCallId;
  return wire;
}

/** Files come before the question, each in a fence that its text cannot close. */
export function withAttachments(content: string, attachments: Attachment[]): string {
  const files = attachments.map(({ name, text }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((ticks) => ticks[0].length));
    const fence = "`".repeat(longest + 1);
    return `File ${name}:\n${fence}\n${text.endsWith("\n") ? text : `${text}\n`}${fence}`;
  });
  return [...files, content].filter((part) => part !== "").join("\n\n");
}

/** Asks for an answer and gives its parts. Ends when the server says it is complete; throws a RequestError otherwise, or the
 * abort of `signal`. */
export async function* streamAnswer(
  messages: WireMessage[],
  sampling: Sampling,
  tools: unknown[] | undefined,
  signal: AbortSignal,
): AsyncGenerator<Delta> {
  const json = {
    messages,
    ...sampling,
    ...(tools ? { tools } : {}),
    stream: true,
    stream_options: { include_usage: true },
  };
  const response = await request("v1/chat/completions", { json, signal });
  if (!response.body) throw new RequestError(BROKEN);
  try {
    for await (const data of serverSentEvents(response.body)) {
      if (data === "[DONE]") return;
      yield readChunk(data);
    }
  } catch (error) {
    if (signal.aborted || error instanceof RequestError) throw error;
    throw new RequestError(BROKEN);
  }
  throw new RequestError(BROKEN);
}

interface WireChunk {
  model?: string;
  error?: { message?: string };
  choices?: {
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
    finish_reason?: string | null;
  }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } } | null;
  timings?: { predicted_per_second?: number; cache_n?: number; predicted_n?: number };
}

/** Reads one chunk; an error that the server reports within the stream is thrown. */
export function readChunk(data: string): Delta {
  const chunk = JSON.parse(data) as WireChunk;
  if (chunk.error) throw new RequestError(midway(chunk.error.message));
  const choice = chunk.choices?.[0];
  const delta: Delta = {};
  if (chunk.model) delta.model = chunk.model;
  if (choice?.delta?.content) delta.content = choice.delta.content;
  if (choice?.delta?.reasoning_content) delta.reasoning = choice.delta.reasoning_content;
  if (choice?.delta?.tool_calls) {
    delta.toolCalls = choice.delta.tool_calls.map(({ index, id, function: called }) => ({ index, ...(id ? { id } : {}), ...called }));
  }
  if (choice?.finish_reason) delta.finish = finishOf(choice.finish_reason);
  const stats = readStats(chunk);
  if (stats) delta.stats = stats;
  return delta;
}

function finishOf(reason: string): "stop" | "length" | "tool_calls" {
  return reason === "length" || reason === "tool_calls" ? reason : "stop";
}

function midway(message: string | undefined): Problem {
  return {
    kind: "server",
    title: "The server could not finish the answer.",
    advice: "What came until then is kept. Try again to have it written anew.",
    ...(message ? { detail: message } : {}),
  };
}

function readStats({ usage, timings }: WireChunk): Stats | undefined {
  const stats: Stats = {};
  const set = (name: keyof Stats, value: number | undefined) => {
    if (typeof value === "number" && Number.isFinite(value)) stats[name] = value;
  };
  set("tokensPerSecond", timings?.predicted_per_second);
  set("cachedTokens", timings?.cache_n);
  set("tokens", timings?.predicted_n);
  set("promptTokens", usage?.prompt_tokens);
  set("cachedTokens", usage?.prompt_tokens_details?.cached_tokens);
  set("tokens", usage?.completion_tokens);
  return Object.keys(stats).length > 0 ? stats : undefined;
}

/** Adds parts of calls to those that came before. */
export function mergeCalls(calls: ToolCall[], parts: NonNullable<Delta["toolCalls"]>): ToolCall[] {
  const merged = [...calls];
  for (const part of parts) {
    const call = merged[part.index] ?? { id: "", name: "", arguments: "" };
    merged[part.index] = {
      id: part.id ?? call.id,
      name: call.name + (part.name ?? ""),
      arguments: call.arguments + (part.arguments ?? ""),
    };
  }
  return merged.filter((call) => call !== undefined);
}
