// Conversations as a file: all that the page knows of them, and nothing else. What comes in is checked field by field.
import { type Attachment, type End, type Message, newId, type Talk, type ToolCall } from "./types.ts";

const FORMAT = "minfer-conversations";
const VERSION = 1;
const ENDS: readonly End[] = ["stop", "length", "tool_calls", "stopped", "failed"];

export function writeTalks(talks: Talk[]): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, conversations: talks }, null, 2);
}

export function readTalks(text: string): { talks: Talk[] } | { error: string } {
  let file: Fields;
  try {
    file = fields(JSON.parse(text));
  } catch {
    return { error: "the file is not JSON" };
  }
  if (file["format"] !== FORMAT) return { error: "the file was not exported by this page" };
  if (file["version"] !== VERSION) return { error: "the file comes from a newer version of this page" };
  const talks = list(file["conversations"]).map(readTalk);
  return talks.every((talk) => talk !== undefined) ? { talks } : { error: "a conversation in the file is damaged" };
}

type Fields = Record<string, unknown>;

function readTalk(value: unknown): Talk | undefined {
  const talk = fields(value);
  const messages = list(talk["messages"]).map(readMessage);
  if (!messages.every((message) => message !== undefined) || messages.length === 0) return undefined;
  const ids = new Set(messages.map((message) => message.id));
  if (messages.some(({ parent }) => parent !== null && !ids.has(parent)) || ids.size < messages.length) return undefined;
  const leaf = typeof talk["leaf"] === "string" && ids.has(talk["leaf"]) ? talk["leaf"] : (messages.at(-1)?.id ?? null);
  return {
    id: /^[0-9a-f]{24}$/.test(string(talk["id"])) ? string(talk["id"]) : newId(),
    title: string(talk["title"]) || "Imported conversation",
    named: talk["named"] === true,
    created: number(talk["created"]) ?? 0,
    changed: number(talk["changed"]) ?? 0,
    system: string(talk["system"]),
    messages,
    leaf,
  };
}

function readMessage(value: unknown): Message | undefined {
  const { id, parent, role, content, at, attachments, reasoning, toolCalls, toolCallId, model, end, stats } = fields(value);
  if (typeof id !== "string" || id === "" || typeof content !== "string") return undefined;
  if (parent !== null && typeof parent !== "string") return undefined;
  if (role !== "user" && role !== "assistant" && role !== "tool") return undefined;
  const message: Message = { id, parent, role, content, at: number(at) ?? 0 };
  if (list(attachments).length > 0) message.attachments = list(attachments).map(readAttachment);
  if (typeof reasoning === "string") message.reasoning = reasoning;
  if (list(toolCalls).length > 0) message.toolCalls = list(toolCalls).map(readCall);
  if (typeof toolCallId === "string") message.toolCallId = toolCallId;
  if (typeof model === "string") message.model = model;
  if (role === "assistant") message.end = ENDS.find((known) => known === end) ?? "stopped";
  const figures = Object.entries(fields(stats)).filter(([, figure]) => number(figure) !== undefined);
  if (figures.length > 0) message.stats = Object.fromEntries(figures);
  return message;
}

function readAttachment(value: unknown): Attachment {
  const { name, text } = fields(value);
  return { name: string(name), text: string(text) };
}

function readCall(value: unknown): ToolCall {
  const call = fields(value);
  return { id: string(call["id"]), name: string(call["name"]), arguments: string(call["arguments"]) };
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
