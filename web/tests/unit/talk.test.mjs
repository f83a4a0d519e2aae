import assert from "node:assert/strict";
import { test } from "node:test";
import { readTalks, writeTalks } from "../../src/chat/exchange.ts";
import { accepts, parseTools, SAMPLING_FIELDS } from "../../src/chat/settings.ts";
import { readFacts } from "../../src/chat/server.ts";
import { append, newTalk, path, showVersion, versions } from "../../src/chat/tree.ts";

const said = (id, parent, role = "user", content = id) => ({ id, parent, role, content, at: 5 });
const ids = (messages) => messages.map(({ id }) => id);

/** a → b → c, and instead of b: d → e. */
const forked = () => [said("a", null), said("b", "a", "assistant"), said("c", "b"), said("d", "a", "assistant"), said("e", "d")].reduce(append, newTalk("", 0));

test("a version brings back what was said after it", () => {
  const talk = forked();
  assert.deepEqual(ids(path(talk)), ["a", "d", "e"]);
  assert.deepEqual(versions(talk).get("a"), ["b", "d"]);
  const before = showVersion(talk, "b");
  assert.deepEqual(ids(path(before)), ["a", "b", "c"]);
  assert.deepEqual(ids(path(showVersion(before, "d"))), ["a", "d", "e"]);
});

test("the first question gives the title, cut between characters", () => {
  const talk = append(newTalk("", 0), said("a", null, "user", `  one\n two ${"🎈".repeat(99)}`));
  assert.equal(talk.title, `one two ${"🎈".repeat(51)}…`);
  assert.equal(append({ ...talk, named: true, title: "mine" }, said("b", null)).title, "mine");
});

test("messages that go in circles end", () => {
  const talk = { ...newTalk("", 0), messages: [said("a", "b"), said("b", "a")], leaf: "a" };
  assert.ok(path(talk).length <= 3);
  assert.ok(showVersion(talk, "a").leaf);
});

test("what is exported comes back", () => {
  const talk = forked();
  talk.messages[1] = { ...talk.messages[1], end: "stop", reasoning: "hm", stats: { tokens: 3 }, model: "m", toolCalls: [{ id: "1", name: "f", arguments: "{}" }] };
  talk.messages[3] = { ...talk.messages[3], end: "length" };
  talk.messages[0] = { ...talk.messages[0], attachments: [{ name: "n", text: "t" }] };
  assert.deepEqual(readTalks(writeTalks([talk])), { talks: [talk] });
});

test("files that are something else are refused with a reason", () => {
  const file = (conversations, more = {}) => JSON.stringify({ format: "minfer-conversations", version: 1, conversations, ...more });
  const reason = (text) => readTalks(text).error;
  assert.match(reason("{"), /not JSON/);
  assert.match(reason("[1]"), /not exported/);
  assert.match(reason(file([], { version: 2 })), /newer/);
  const damaged = [{}, null, { messages: [{ id: "a" }] }, { messages: [said("a", "gone")] }, { messages: [said("a", null), said("a", null)] }];
  for (const talk of [...damaged, { messages: [{ ...said("a", null), role: "system" }] }]) {
    assert.match(reason(file([talk])), /damaged/, JSON.stringify(talk));
  }
});

test("fields of the sampler take what lies in their range", () => {
  const field = (name) => SAMPLING_FIELDS.find((one) => one.name === name);
  assert.ok(accepts(field("temperature"), 0.123) && accepts(field("top_k"), 40) && accepts(field("seed"), 0));
  assert.ok(!accepts(field("temperature"), -1) && !accepts(field("top_k"), 1.5) && !accepts(field("top_p"), Number.NaN));
});

test("tools must be an array", () => {
  assert.deepEqual(parseTools(" "), {});
  assert.deepEqual(parseTools("[]"), {});
  assert.deepEqual(parseTools('[{"a":1}]'), { tools: [{ a: 1 }] });
  assert.match(parseTools("{}").error, /array/);
  assert.match(parseTools("[").error, /JSON/);
});

test("the server's defaults are read, and those that stand for none are left out", () => {
  const params = { temperature: 0.8, top_k: 40, seed: -1, n_predict: -1, max_tokens: null };
  const models = { data: [{ id: "m", meta: { n_ctx: 10 } }] };
  assert.deepEqual(readFacts(models, { default_generation_settings: { n_ctx: 2048, params } }), {
    model: "m", nCtx: 2048, defaults: { temperature: 0.8, top_k: 40 },
  });
  assert.deepEqual(readFacts(models, {}), { model: "m", nCtx: 10, defaults: {} });
  assert.deepEqual(readFacts({}, {}), { model: "model", defaults: {} });
});
