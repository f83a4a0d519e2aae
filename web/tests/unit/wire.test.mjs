import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../../src/common/sse.ts";
import { append, newTalk } from "../../src/chat/tree.ts";
import { mergeCalls, readChunk, wireMessages, withAttachments } from "../../src/chat/wire.ts";

const said = (id, parent, role, content, more = {}) => ({ id, parent, role, content, at: 1, ...more });
const talkOf = (system, ...messages) => messages.reduce(append, newTalk(system, 0));

test("events are the same however the text is cut", () => {
  const stream = 'data: {"a":1}\n\n: comment\nevent: x\ndata:two\ndata: lines\r\n\r\ndata: [DONE]\n\ndata: never ended';
  const expected = ['{"a":1}', "two\nlines", "[DONE]"];
  for (let step = 1; step <= stream.length; step++) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < stream.length; at += step) events.push(...parser.push(stream.slice(at, at + step)));
    assert.deepEqual(events, expected, `in steps of ${step}`);
  }
});

test("files come before the question, in fences that their text does not close", () => {
  const text = withAttachments("What is it?", [{ name: "a.md", text: "```\ncode\n```\n" }, { name: "b", text: "x" }]);
  assert.equal(text, "File a.md:\n````\n```\ncode\n```\n````\n\nFile b:\n```\nx\n```\n\nWhat is it?");
});

test("a blank system prompt is not sent, and an answer that failed at once neither", () => {
  const failed = said("2", "1", "assistant", "", { end: "failed" });
  const talk = talkOf("  ", said("1", null, "user", "one"), failed, said("3", "2", "user", "two"));
  assert.deepEqual(wireMessages(talk, "3"), [{ role: "user", content: "one\n\ntwo" }]);
});

test("calls and their results are sent back", () => {
  const toolCalls = [{ id: "c", name: "f", arguments: "{}" }];
  const talk = talkOf(
    "be kind",
    said("1", null, "user", "one"),
    said("2", "1", "assistant", "", { toolCalls }),
    said("3", "2", "tool", "42", { toolCallId: "c" }),
  );
  assert.deepEqual(wireMessages(talk, "3"), [
    { role: "system", content: "be kind" },
    { role: "user", content: "one" },
    { role: "assistant", content: "", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", content: "42", tool_call_id: "c" },
  ]);
});

test("parts of calls become calls", () => {
  const parts = [
    [{ index: 0, id: "a", name: "f", arguments: "" }],
    [{ index: 0, arguments: '{"x"' }],
    [{ index: 1, id: "b", name: "g", arguments: "{}" }],
    [{ index: 0, arguments: ":1}" }],
  ];
  assert.deepEqual(parts.reduce(mergeCalls, []), [
    { id: "a", name: "f", arguments: '{"x":1}' },
    { id: "b", name: "g", arguments: "{}" },
  ]);
});

test("a chunk tells text, end and figures; an error within the stream is thrown", () => {
  const chunk = (value) => readChunk(JSON.stringify(value));
  assert.deepEqual(chunk({ model: "m", choices: [{ delta: { content: "a" } }] }), { model: "m", content: "a" });
  assert.deepEqual(chunk({ choices: [{ delta: { reasoning_content: "b" } }] }), { reasoning: "b" });
  assert.deepEqual(chunk({ choices: [{ delta: {}, finish_reason: "length" }], timings: { predicted_per_second: 9.5 } }), {
    finish: "length",
    stats: { tokensPerSecond: 9.5 },
  });
  assert.deepEqual(chunk({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 5 } } }), {
    stats: { promptTokens: 7, cachedTokens: 5, tokens: 3 },
  });
  assert.throws(() => chunk({ error: { message: "device lost" } }), (error) => error.problem.detail === "device lost");
});
