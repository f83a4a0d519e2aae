// Answers that are being written. They go on when another conversation is shown, and are kept as they grow.
import { batch, type Signal, signal } from "@preact/signals";
import { BROKEN, type Problem, RequestError } from "../common/http.ts";
import { serverProblem } from "./server.ts";
import { parseTools, sampling, toolsText } from "./settings.ts";
import { Painter } from "./painter.ts";
import { change, talkById } from "./store.ts";
import { append, replace } from "./tree.ts";
import { type End, type Message, newId, type Stats, type ToolCall } from "./types.ts";
import { type Delta, mergeCalls, streamAnswer, wireMessages } from "./wire.ts";

/** How often an answer that grows is written to the browser's storage. */
const KEEP_EVERY_MS = 1000;

/** An answer on its way. What grows is here, so that only its own part of the page is drawn anew. */
export interface Live {
  talkId: string;
  messageId: string;
  content: Signal<string>;
  reasoning: Signal<string>;
  toolCalls: Signal<ToolCall[]>;
  stop: () => void;
}

/** By conversation: each has one at most. */
export const lives = signal<ReadonlyMap<string, Live>>(new Map());

/** What screen readers are told. */
export const announcement = signal("");

/** Has the message `parent` answered, as the last message of its conversation. */
export function answer(talkId: string, parent: string): void {
  if (lives.peek().has(talkId)) return;
  const message: Message = { id: newId(), parent, role: "assistant", content: "", at: Date.now(), end: "writing" };
  change(talkId, (talk) => append(talk, message));
  void new Writing(talkId, message).run(parent);
}

/** Stops what is being written in a conversation. */
export function stop(talkId: string): void {
  lives.peek().get(talkId)?.stop();
}

class Writing {
  readonly #talkId: string;
  readonly #abort = new AbortController();
  readonly #live: Live;
  #message: Message;
  #stats: Stats = {};
  #calls: ToolCall[] = [];
  #content = "";
  #reasoning = "";
  #keptAt = 0;
  #firstAt = 0;
  #nParts = 0;
  readonly #painter = new Painter(() => this.#show());

  constructor(talkId: string, message: Message) {
    this.#talkId = talkId;
    this.#message = message;
    this.#live = {
      talkId,
      messageId: message.id,
      content: signal(""),
      reasoning: signal(""),
      toolCalls: signal([]),
      stop: () => this.#abort.abort(),
    };
  }

  async run(parent: string): Promise<void> {
    const talk = talkById(this.#talkId);
    if (!talk) return;
    lives.value = new Map(lives.peek()).set(this.#talkId, this.#live);
    announcement.value = "The answer is being written.";
    const started = performance.now();
    let end: End = "stop";
    try {
      const { tools } = parseTools(toolsText.peek());
      const stream = streamAnswer(wireMessages(talk, parent), sampling.peek(), tools, this.#abort.signal);
      for await (const delta of stream) {
        this.#take(delta, started);
        if (delta.finish) end = delta.finish;
      }
    } catch (error) {
      end = this.#abort.signal.aborted ? "stopped" : "failed";
      if (end === "failed") this.#fail(error instanceof RequestError ? error.problem : BROKEN);
    }
    this.#finish(end, started);
  }

  #fail(problem: Problem): void {
    this.#message.problem = problem;
    if (problem.kind === "key") serverProblem.value = problem;
  }

  #take(delta: Delta, started: number): void {
    const said = delta.content ?? delta.reasoning ?? delta.toolCalls;
    if (said !== undefined) {
      this.#nParts++;
      if (this.#firstAt === 0) {
        this.#firstAt = performance.now();
        this.#stats.firstTokenMs = this.#firstAt - started;
      }
    }
    this.#content += delta.content ?? "";
    this.#reasoning += delta.reasoning ?? "";
    if (delta.toolCalls) this.#calls = mergeCalls(this.#calls, delta.toolCalls);
    if (delta.model) this.#message.model = delta.model;
    if (delta.stats) this.#stats = { ...this.#stats, ...delta.stats };
    this.#painter.want();
    if (performance.now() - this.#keptAt > KEEP_EVERY_MS) this.#keep();
  }

  /** Shows what came since the last time. */
  #show(): void {
    batch(() => {
      this.#live.content.value = this.#content;
      this.#live.reasoning.value = this.#reasoning;
      this.#live.toolCalls.value = this.#calls;
    });
  }

  #keep(): void {
    this.#keptAt = performance.now();
    const message = this.#whole();
    change(this.#talkId, (talk) => replace(talk, message));
  }

  #whole(): Message {
    return {
      ...this.#message,
      content: this.#content,
      ...(this.#reasoning === "" ? {} : { reasoning: this.#reasoning }),
      ...(this.#calls.length === 0 ? {} : { toolCalls: this.#calls }),
    };
  }

  #finish(end: End, started: number): void {
    this.#painter.end();
    const seconds = (performance.now() - (this.#firstAt || started)) / 1000;
    if (this.#stats.tokensPerSecond === undefined && this.#nParts > 1) {
      this.#stats.tokensPerSecond = (this.#nParts - 1) / seconds;
    }
    this.#message = { ...this.#whole(), end, ...(this.#nParts > 0 ? { stats: this.#stats } : {}) };
    batch(() => {
      this.#keep();
      const others = new Map(lives.peek());
      others.delete(this.#talkId);
      lives.value = others;
      announcement.value = announced(this.#message);
    });
  }
}

const ANNOUNCED_LENGTH = 800;

function announced(message: Message): string {
  if (message.problem) return `${message.problem.title} ${message.problem.advice}`;
  const text = message.content.slice(0, ANNOUNCED_LENGTH);
  return message.end === "stopped" ? `Stopped. ${text}` : `The answer: ${text}`;
}
