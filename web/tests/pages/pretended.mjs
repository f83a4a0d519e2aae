// What a reader does with the chat page while the server only pretends, and does what no model would on demand.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { PHONE } from "./chat.mjs";

export const chatWithMock = {
  async "markdown is rendered, and nothing in it runs or loads"(page) {
    await page.ask("markdown");
    const answer = page.answers.last();
    assert.equal(await answer.locator("h1").innerText(), "A short tour");
    assert.equal(await answer.locator("table tr").count(), 4);
    assert.equal(await answer.locator("img, script").count(), 0);
    assert.match(await answer.innerText(), /Vec<T> stays text,\s+and so does <script>alert\("no"\)<\/script>/);
    assert.equal(await answer.getByRole("link", { name: "a picture" }).getAttribute("rel"), "noopener noreferrer");
    assert.ok((await answer.locator(".hljs-keyword").count()) > 5);
    for (const scheme of ["light", "dark"]) {
      await page.inColours(scheme);
      await page.shot(scheme);
    }
    await page.raw.setViewportSize(PHONE);
    await page.fits();
    await page.shot("phone");
  },

  async "hostile markdown stays harmless"(page) {
    const hostile = [
      "[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "<a href='javascript:alert(1)'>y</a>", "![z](https://evil.test/p.png)",
      "<style>body{display:none}</style>", "<iframe src='https://evil.test'></iframe>", '<div style="position:fixed" class="dialog">d</div>',
    ].join("\n\n");
    await page.raw.route("**/v1/chat/completions", (route) => {
      const chunk = (delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
      return route.fulfill({ contentType: "text/event-stream", body: `${chunk({ content: hostile })}data: [DONE]\n\n` });
    });
    await page.ask("be hostile");
    const found = await page.answers.last().evaluate((answer) => ({
      elements: answer.querySelectorAll("img, style, iframe, script, [style], .dialog").length,
      links: [...answer.querySelectorAll(".prose a")].map((link) => link.getAttribute("href")),
    }));
    assert.deepEqual(found, { elements: 0, links: [null, "https://evil.test/p.png"] });
  },

  async "code is copied"(page) {
    await page.raw.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.ask("code");
    await page.raw.getByRole("button", { name: "Copy", exact: true }).first().click();
    await page.button("Copied").waitFor();
    const copied = await page.raw.evaluate(() => navigator.clipboard.readText());
    assert.ok(copied.startsWith("use std::collections::HashMap;\n") && copied.endsWith("}"), copied);
  },

  async "reasoning is folded"(page) {
    await page.ask("think");
    const summary = page.raw.getByText(/Thought in \d+ words/);
    assert.ok(!(await page.raw.getByText("The reader asks something simple").isVisible()));
    await summary.click();
    await page.raw.getByText("The reader asks something simple").waitFor();
  },

  async "calls of tools are shown, and their result goes back"(page, mock) {
    const tools = '[{"type": "function", "function": {"name": "get_weather"}}]';
    await page.settings((dialog) => dialog.getByLabel("Tools, as JSON").fill(tools));
    await page.ask("tool");
    assert.match(await page.answers.last().innerText(), /Calls get_weather/);
    assert.deepEqual(mock.requests[0].body.tools, JSON.parse(tools));
    await page.shot("call");
    await page.raw.getByLabel("Result of this call").fill('{"degrees": 3}');
    await page.button("Give the result").click();
    await page.answers.nth(1).waitFor();
    await page.answered();
    assert.deepEqual(mock.requests[1].body.messages.slice(1), [
      { role: "assistant", content: "", tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city": "Oslo", "unit": "C"}' } }] },
      { role: "tool", content: '{"degrees": 3}', tool_call_id: "call_1" },
    ]);
  },

  async "settings show the server's defaults and send what was set"(page, mock) {
    await page.settings(async (dialog) => {
      assert.equal(await dialog.getByLabel("Temperature").getAttribute("placeholder"), "0.7");
      await dialog.getByLabel("Temperature").fill("0.25");
      await dialog.getByLabel("Seed").fill("7");
      await dialog.getByLabel("Top p").fill("4");
      assert.equal(await dialog.getByLabel("Top p").getAttribute("aria-invalid"), "true");
      assert.equal(await dialog.getByLabel("Top p").inputValue(), "4");
      await dialog.getByLabel("System prompt").fill("You are terse.");
      await page.shot("settings");
    });
    await page.ask("hello");
    const { messages, stream, stream_options, ...sampling } = mock.requests[0].body;
    assert.deepEqual(sampling, { temperature: 0.25, seed: 7 });
    assert.deepEqual(messages, [{ role: "system", content: "You are terse." }, { role: "user", content: "hello" }]);
    assert.ok(stream && stream_options.include_usage);
  },

  async "stopping lets the server know"(page, mock) {
    await page.send("slow");
    await page.writing();
    await page.raw.keyboard.press("Escape");
    await page.answered();
    for (let n = 0; n < 200 && !mock.requests[0].gone; n++) await page.raw.evaluate(() => new Promise(requestAnimationFrame));
    assert.ok(mock.requests[0].gone);
  },

  async "errors say what happened and what to do"(page) {
    page.expectsRefusal = true;
    const expected = {
      busy: ["The server is busy.", "Try again in 3 seconds."],
      full: ["The server refused the request.", "no longer fits"],
      broken: ["could not finish the answer", "the device was lost"],
      cut: ["The connection broke", "is kept"],
    };
    for (const [word, texts] of Object.entries(expected)) {
      await page.raw.keyboard.press("Alt+n");
      await page.raw.locator(".welcome").waitFor();
      await page.ask(word);
      const shown = await page.raw.getByRole("alert").innerText();
      for (const text of texts) assert.ok(shown.includes(text), `${word}: ${shown}`);
      await page.shot(word);
    }
    await page.shows(/^A hash map keeps/);
  },

  async "a server that is gone is told, and trying again works"(page) {
    await page.raw.route("**/v1/chat/completions", (route) => route.abort());
    page.expectsRefusal = true;
    await page.ask("hello");
    assert.match(await page.raw.getByRole("alert").innerText(), /does not answer.*minfer serve/s);
    await page.raw.unroute("**/v1/chat/completions");
    await page.button("Try again").click();
    await page.raw.getByLabel("Version 2 of 2").waitFor();
    await page.answered();
    await page.shows(/hash map/);
  },

  async "files are attached, and what is no text is refused"(page, mock) {
    const input = page.raw.locator("#attach");
    await input.setInputFiles([
      { name: "notes.md", mimeType: "text/markdown", buffer: Buffer.from("# Notes\n") },
      { name: "image.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0xff, 0xfe, 0, 1]) },
    ]);
    await page.raw.getByText("Not attached: image.bin").waitFor();
    await page.shot("attached");
    await page.ask("What is in it?");
    assert.equal(mock.requests[0].body.messages[0].content, "File notes.md:\n```\n# Notes\n```\n\nWhat is in it?");
    assert.match(await page.questions.first().innerText(), /notes\.md/);
  },

  async "conversations are listed, renamed, deleted and brought back"(page) {
    await page.ask("first talk");
    await page.button("New conversation").first().click();
    await page.ask("second talk");
    const list = page.raw.getByRole("navigation", { name: "Conversations" });
    assert.deepEqual(await list.getByRole("link").allInnerTexts(), ["second talk", "first talk"]);
    await list.getByRole("link", { name: "first talk" }).click();
    await page.raw.locator("h1", { hasText: "first talk" }).waitFor();
    await list.getByRole("link", { name: "first talk" }).hover();
    await page.button("Rename: first talk").click();
    await page.raw.getByLabel("New title").fill("A better title");
    await page.raw.getByLabel("New title").press("Enter");
    await page.raw.locator("h1", { hasText: "A better title" }).waitFor();
    await page.button("Delete: A better title").click();
    await page.raw.getByText("Deleted: A better title").waitFor();
    assert.equal(await list.getByRole("link").count(), 1);
    await page.button("Undo").click();
    await list.getByRole("link", { name: "A better title" }).click();
    await page.raw.locator("h1", { hasText: "A better title" }).waitFor();
    await page.raw.goBack();
    await page.reload();
    assert.equal(await list.getByRole("link").count(), 2);
  },

  async "conversations go to a file and come back"(page) {
    await page.ask("keep this");
    const saving = page.raw.waitForEvent("download");
    await page.button("Export all conversations").click();
    const path = await (await saving).path();
    assert.match(await readFile(path, "utf8"), /minfer-conversations/);
    await page.raw.getByRole("link", { name: "keep this" }).hover();
    await page.button("Delete: keep this").click();
    await page.raw.locator(".welcome").waitFor();
    const file = page.raw.getByLabel("File of conversations");
    await file.setInputFiles({ name: "bad.json", mimeType: "application/json", buffer: Buffer.from("{}") });
    await page.raw.getByText("Nothing was imported").waitFor();
    await file.setInputFiles({ name: "good.json", mimeType: "application/json", buffer: await readFile(path) });
    await page.raw.getByText("Imported 1 conversation.").waitFor();
    await page.raw.getByRole("link", { name: "keep this" }).click();
    await page.shows(/hash map/);
  },

  async "a hundred messages stay smooth, and the reader's place is respected"(page) {
    const messages = Array.from({ length: 100 }, (_, n) => ({
      id: `m${n}`, parent: n === 0 ? null : `m${n - 1}`, role: n % 2 ? "assistant" : "user", at: 1, end: "stop",
      content: n % 2 ? `Answer ${n}\n\n\`\`\`js\nlet x = ${n};\n\`\`\`\n\n- one\n- two` : `Question ${n}`,
    }));
    const talk = { id: "0".repeat(24), title: "Long", named: true, created: 1, changed: 1, system: "", messages, leaf: "m99" };
    const buffer = Buffer.from(JSON.stringify({ format: "minfer-conversations", version: 1, conversations: [talk] }));
    await page.raw.getByLabel("File of conversations").setInputFiles({ name: "long.json", mimeType: "application/json", buffer });
    await page.raw.getByRole("link", { name: "Long", exact: true }).click();
    await page.answers.nth(49).waitFor();
    await page.until(atEnd);
    await page.send("slow");
    await page.writing();
    await page.until(atEnd);
    // Only the answer that grows may change while it does.
    const touched = await page.raw.evaluate(async () => {
      const lists = new Set();
      const observer = new MutationObserver((records) => records.forEach(({ target }) => lists.add((target.closest?.("li.message") ?? target.parentElement?.closest("li.message"))?.getAttribute("aria-busy"))));
      observer.observe(document.querySelector(".messages"), { subtree: true, childList: true, characterData: true });
      const grown = () => document.querySelector("li.answer[aria-busy=true] > .prose")?.textContent.length ?? 0;
      for (const begin = grown(); grown() < begin + 30; ) await new Promise(requestAnimationFrame);
      observer.disconnect();
      return [...lists];
    });
    assert.deepEqual(touched, ["true"]);
    await page.raw.locator(".scroller").hover();
    await page.raw.mouse.wheel(0, -1500);
    await page.button("Newest").waitFor();
    const top = await page.raw.evaluate(() => document.querySelector(".scroller").scrollTop);
    await page.raw.keyboard.press("Escape");
    await page.answered();
    assert.equal(await page.raw.evaluate(() => document.querySelector(".scroller").scrollTop), top);
    await page.button("Newest").click();
    await page.until(atEnd);
  },

  async "an answer goes on while another conversation is shown"(page) {
    await page.send("slow");
    await page.writing();
    await page.button("New conversation").first().click();
    await page.ask("quick");
    await page.raw.getByRole("link", { name: "slow" }).click();
    await page.answered();
    await page.shows(/however many there are/);
  },

  async "the reader's choice of colours is kept"(page) {
    await page.inColours("dark");
    await page.button(/^Colours: as the system/).click();
    await page.isTheme("light");
    await page.reload();
    await page.isTheme("light");
    await page.button(/^Colours: light/).click();
    await page.button(/^Colours: dark/).click();
    await page.isTheme("dark");
  },

  "a key is asked for when the server wants one": withKey(async (page) => {
    await page.raw.getByRole("alert").filter({ hasText: "wants an API key" }).waitFor();
    await page.shot("wanted");
    await page.button("Enter a key").click();
    await page.raw.getByLabel("API key").fill("open sesame");
    await page.raw.getByLabel("API key").press("Enter");
    await page.raw.getByText("Kept in this browser, sent to this server only.").waitFor();
    await page.raw.keyboard.press("Escape");
    assert.match(await page.ask("hello"), /hash map/);
  }),
};

function withKey(scenario) {
  return Object.assign(scenario, { key: "open sesame" });
}

function atEnd() {
  const scroller = document.querySelector(".scroller");
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2;
}
