// What a conversation is. Nothing here knows of the page or of the browser's storage.
import type { Problem } from "../common/http.ts";

export interface Attachment {
  name: string;
  text: string;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON as the model wrote it; perhaps not whole. */
  arguments: string;
}

/** Figures of an answer. Absent ones were not told. */
export interface Stats {
  promptTokens?: number;
  cachedTokens?: number;
  tokens?: number;
  tokensPerSecond?: number;
  firstTokenMs?: number;
}

/** How an answer ended: as the model wished, at a limit, with calls of tools, by the reader, by an error; or not yet. */
export type End = "stop" | "length" | "tool_calls" | "stopped" | "failed" | "writing";

export interface Message {
  id: string;
  /** The message before it; messages with the same parent are versions of each other. */
  parent: string | null;
  role: "user" | "assistant" | "tool";
  content: string;
  /** Milliseconds since 1970. */
  at: number;
  attachments?: Attachment[];
  reasoning?: string;
  toolCalls?: ToolCall[];
  /** Of a tool's result: the call that it answers. */
  toolCallId?: string;
  model?: string;
  end?: End;
  problem?: Problem;
  stats?: Stats;
}

export interface Talk {
  id: string;
  title: string;
  /** Whether the reader gave the title. */
  named: boolean;
  created: number;
  changed: number;
  system: string;
  /** All messages of all versions, in the order in which they were made: a tree by `parent`. */
  messages: Message[];
  /** The last message of the version that is shown. */
  leaf: string | null;
}

/** What the list of conversations needs. */
export type TalkHead = Pick<Talk, "id" | "title" | "created" | "changed">;

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function headOf({ id, title, created, changed }: Talk): TalkHead {
  return { id, title, created, changed };
}
