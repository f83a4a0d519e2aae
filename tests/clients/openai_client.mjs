// The transcript of `openai` for Node.

import assert from "node:assert/strict";
import OpenAI from "openai";

const [base, model, ...sections] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "secret", maxRetries: 0 });
const prompt = "Say hello to the world.";
const greedy = { model, messages: [{ role: "user", content: prompt }], temperature: 0, max_tokens: 12 };
const schema = {
  type: "object",
  properties: {
    city: { type: "string", enum: ["Oslo", "Paris"] },
    days: { type: "integer", enum: [1, 2, 3] },
  },
  required: ["city", "days"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather.", parameters: schema } }];

const say = (what, ...values) => console.log(`${what}:`, ...values.map((value) => JSON.stringify(value)));
const answer = (text) => console.log("ANSWER", JSON.stringify(text));

function checkArguments(text) {
  const { city, days, ...more } = JSON.parse(text);
  assert.ok(["Oslo", "Paris"].includes(city) && [1, 2, 3].includes(days), text);
  assert.deepEqual(more, {});
}

const all = {
  async models() {
    const ids = [];
    for await (const entry of client.models.list()) ids.push(entry.id);
    assert.ok(ids.includes(model));
    say("models", ids);
  },
  async chat() {
    const reply = await client.chat.completions.create(greedy);
    assert.ok(["stop", "length"].includes(reply.choices[0].finish_reason));
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
    answer(reply.choices[0].message.content);
  },
  async stream() {
    const stream = await client.chat.completions.create({ ...greedy, stream: true, stream_options: { include_usage: true } });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    assert.equal(chunks[0].choices[0].delta.role, "assistant");
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.ok(chunks.at(-1).usage.completion_tokens > 0);
    answer(chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.delta.content ?? "").join(""));
    const final = await client.chat.completions.stream(greedy).finalContent();
    answer(final);
  },
  async abort() {
    const stream = await client.chat.completions.create({ ...greedy, max_tokens: 100, stream: true });
    let n = 0;
    // Leaving the loop closes the connection.
    for await (const _ of stream) if (++n === 3) break;
    const after = await client.chat.completions.create(greedy);
    assert.ok(after.usage.completion_tokens > 0);
    say("abort", n);
  },
  async tools() {
    const asked = { ...greedy, max_tokens: 200, tools, tool_choice: "required" };
    const reply = await client.chat.completions.create(asked);
    const call = reply.choices[0].message.tool_calls[0];
    assert.equal(reply.choices[0].finish_reason, "tool_calls");
    checkArguments(call.function.arguments);
    const whole = await client.chat.completions.stream(asked).finalChatCompletion();
    checkArguments(whole.choices[0].message.tool_calls[0].function.arguments);
    say("tools", call.function.name, JSON.parse(call.function.arguments));
  },
  async structured() {
    const format = { type: "json_schema", json_schema: { name: "trip", schema, strict: true } };
    const reply = await client.chat.completions.create({ ...greedy, max_tokens: 200, response_format: format });
    checkArguments(reply.choices[0].message.content);
    say("structured", JSON.parse(reply.choices[0].message.content));
  },
  async embeddings() {
    const reply = await client.embeddings.create({ model, input: ["Hello", "Good day"] });
    assert.equal(reply.data.length, 2);
    const norm = reply.data[0].embedding.reduce((sum, x) => sum + x * x, 0);
    assert.ok(Math.abs(norm - 1) < 1e-3);
    say("embeddings", reply.data[0].embedding.length);
  },
  async responses() {
    const asked = { model, input: prompt, temperature: 0, max_output_tokens: 12 };
    const reply = await client.responses.create(asked);
    answer(reply.output_text);
    let text = "";
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    answer(text);
  },
  async errors() {
    await assert.rejects(client.chat.completions.create({ ...greedy, temperature: 9 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError && error.param === "temperature");
      return true;
    });
    await assert.rejects(client.chat.completions.create({ ...greedy, model: "nobody" }), OpenAI.NotFoundError);
    const stranger = new OpenAI({ baseURL: `${base}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
    say("errors", 3);
  },
};

for (const name of sections) {
  console.log(`# ${name}`);
  await all[name]();
}
console.log("OK", sections.length, "sections");
