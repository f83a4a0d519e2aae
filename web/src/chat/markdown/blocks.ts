// Markdown that is still being written, cut into blocks so that only the last of them is looked at again.
//
// Contract: the text only grows. A block is settled once a later one has begun on a line that is complete: until then the
// characters to come may still change it ("text", newline, "#" is a heading, "#a" goes on with the paragraph). From there on
// lexing starts at the first block that is not settled, so that the work is in proportion to the text, not to its square.
// One thing is decided by what comes later: a link whose definition follows it. The finished text is lexed whole for that.
import { Lexer, type Token } from "marked";

/** A block of markdown; `raw` is its source. */
export interface Block {
  raw: string;
  token: Token;
}

/** A fence that is not closed yet, with the text so far. */
export interface OpenCode {
  language: string;
  text: string;
}

const FENCE = /^ {0,3}(`{3,}(?=[^`\n]*(?:\n|$))|~{3,})([^\n]*)\n/;

/** All blocks of a finished text. */
export function blocksOf(text: string): Block[] {
  return withoutSpace(Lexer.lex(text.replace(/\r\n?/g, "\n")));
}

export class GrowingBlocks {
  #settled: Block[] = [];
  #offset = 0;
  #tail: Block[] = [];
  #fence: { textStart: number; scanned: number; close: RegExp; language: string } | undefined;
  open: OpenCode | undefined;

  get blocks(): Block[] {
    return [...this.#settled, ...this.#tail];
  }

  /** Takes in the whole text so far. */
  update(text: string): void {
    this.open = undefined;
    if (this.#fence && !this.#fenceEnded(text)) {
      this.#tail = [];
      this.open = { language: this.#fence.language, text: text.slice(this.#fence.textStart) };
      return;
    }
    this.#fence = undefined;
    const tokens = Lexer.lex(text.slice(this.#offset));
    const end = this.#settle(tokens);
    this.#tail = withoutSpace(tokens.slice(end));
    this.#openFence(text);
  }

  /** Moves what is settled out of the tail; returns how many tokens. */
  #settle(tokens: Token[]): number {
    let last = tokens.length - 1;
    while (last > 0 && !(tokens[last]?.type !== "space" && tokens[last]?.raw.includes("\n"))) last--;
    const settled = tokens.slice(0, Math.max(last, 0));
    for (const token of settled) this.#offset += token.raw.length;
    this.#settled.push(...withoutSpace(settled));
    return settled.length;
  }

  /** Whether what is left is a fence that goes on: its lines need no lexing then. */
  #openFence(text: string): void {
    if (this.#tail.length !== 1 || this.#tail[0]?.token.type !== "code") return;
    const match = FENCE.exec(text.slice(this.#offset));
    if (!match?.[1]) return;
    const textStart = this.#offset + match[0].length;
    const close = new RegExp(`^ {0,3}${match[1][0]}{${match[1].length},}[ \\t]*$`);
    this.#fence = { textStart, scanned: textStart, close, language: firstWord(match[2]) };
    if (this.#fenceEnded(text)) {
      this.#fence = undefined;
      return;
    }
    this.#tail = [];
    this.open = { language: this.#fence.language, text: text.slice(textStart) };
  }

  /** Looks at the lines that are new and complete. */
  #fenceEnded(text: string): boolean {
    const fence = this.#fence;
    if (!fence) return true;
    for (;;) {
      const end = text.indexOf("\n", fence.scanned);
      if (end < 0) return fence.close.test(text.slice(fence.scanned));
      if (fence.close.test(text.slice(fence.scanned, end))) return true;
      fence.scanned = end + 1;
    }
  }
}

function withoutSpace(tokens: Token[]): Block[] {
  return tokens.filter((token) => token.type !== "space" && token.type !== "def").map((token) => ({ raw: token.raw, token }));
}

/** A fence names its language first. */
export function firstWord(info: string | undefined): string {
  return (info ?? "").trim().split(/\s/)[0] ?? "";
}
