import assert from "node:assert/strict";
import { test } from "node:test";
import { Lexer } from "marked";
import { samples } from "../../dev/samples.mjs";
import { blocksOf, GrowingBlocks } from "../../src/chat/markdown/blocks.ts";

/** Texts in which what comes later changes what came before, as far as markdown does that. */
const AWKWARD = [
  "text\n#a goes on\n# a heading\n\nmore",
  "text\n-\n\ntext\n- item\n- - -\n",
  "a | b\n--- | ---\n1 | 2\n\nafter\n\nx\n===\ny\n",
  "- one\n\n- two\n\n  still two\n\n      code in two\n\nnot a list\n\n1. a\n   ```js\n   let x;\n   ```\n2. b\n",
  "```rust\nfn main() {}\n```\nafter\n\n~~~\na\n```\n~~~\n\n````md\n```\ninner\n```\n````\n",
  "```\nnever closed\n\n# no heading\n",
  "   ```\n   indented fence\n   ```\nend",
  "``` not a fence ``` but code\n\n`````\n```\n`````  \ntail",
  "    indented code\n\n    more of it\n\nend\n",
  "> quote\n> ```\n> code in it\n> ```\n\nlazy\n> again\nlazy line\n\n",
  "<div>\nhtml\n\n</div>\n\ntext <b>bold</b>\n",
  "\n\n\n  leading space\n\n\n\nmany blank lines\n\n\n",
];

const view = (blocks) => blocks.map(({ raw, token }) => [token.type, raw.trimEnd()]);

/** Without the indentation of the fence, which goes when the fence is closed. */
const bare = (code) => code.replace(/^ {1,3}/gm, "").trimEnd();

function agrees(growing, prefix) {
  const whole = blocksOf(prefix);
  if (growing.open) {
    const last = whole.pop();
    assert.equal(last.token.type, "code");
    assert.equal(bare(growing.open.text), bare(last.token.text));
  }
  assert.deepEqual(view(growing.blocks), view(whole), JSON.stringify(prefix.slice(-80)));
}

test("at every character, growing text has the blocks of the text as a whole", () => {
  for (const text of [...AWKWARD, samples.markdown, samples.code]) {
    const growing = new GrowingBlocks();
    for (let end = 1; end <= text.length; end++) {
      growing.update(text.slice(0, end));
      agrees(growing, text.slice(0, end));
    }
  }
});

test("so it has if text comes in large pieces", () => {
  for (const text of [...AWKWARD, samples.markdown, samples.long.slice(0, 9000)]) {
    for (const step of [7, 40, 301]) {
      const growing = new GrowingBlocks();
      for (let end = step; end < text.length + step; end += step) {
        growing.update(text.slice(0, end));
        agrees(growing, text.slice(0, end));
      }
    }
  }
});

test("the work is in proportion to the text", (context) => {
  const lex = Lexer.lex;
  let lexed = 0;
  Lexer.lex = (text, options) => {
    lexed += text.length;
    return lex(text, options);
  };
  context.after(() => (Lexer.lex = lex));
  const cost = (text) => {
    lexed = 0;
    const growing = new GrowingBlocks();
    for (let end = 50; end < text.length + 50; end += 50) growing.update(text.slice(0, end));
    return lexed / text.length;
  };
  const code = `\`\`\`js\n${"let x = 1;\n".repeat(4000)}\`\`\`\n`;
  const [prose, twice, coded] = [cost(samples.long), cost(samples.long.repeat(2)), cost(code)];
  assert.ok(prose > 1 && prose < 30, `${prose} times the text`);
  assert.ok(twice < prose * 1.2, `${twice} times a text twice as long, ${prose} times the first`);
  assert.ok(coded < 2, `${coded} times a long block of code`);
});
