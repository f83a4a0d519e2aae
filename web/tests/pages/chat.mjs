// What a reader does with the chat page, whatever the model. `chatWithAny` holds with every model, `chatWithSlow` with those
// whose answers can be watched and interrupted.
import assert from "node:assert/strict";

export const PHONE = { width: 390, height: 844 };

export const chatWithAny = {
  async "a reload keeps the talk"(page) {
    await shortAnswers(page, 24);
    const text = await page.ask("Tell me a short story.");
    assert.notEqual(text, "");
    assert.match(await page.answers.last().locator(".figures").innerText(), /tokens\/s/);
    const heading = await page.raw.locator("h1").innerText();
    await page.reload();
    await page.shows(text);
    assert.equal(await page.raw.locator("h1").innerText(), heading);
    await page.shot("page");
  },

  async "a second question reads only what is new"(page) {
    await shortAnswers(page, 8);
    await page.ask("Name a colour that you like, and say why you like it.");
    await page.ask("And another one?");
    assert.match(await page.answers.last().locator(".figures").innerText(), /\d+ read, \d+ cached/);
  },

  async "another answer stands beside the first"(page) {
    await shortAnswers(page, 16);
    await page.ask("Say something.");
    await page.button("Write another answer").click();
    await page.raw.getByLabel("Version 2 of 2").waitFor();
    await page.answered();
    const second = await page.lastText();
    assert.equal(await page.answers.count(), 1);
    await page.button("Version before").click();
    await page.raw.getByLabel("Version 1 of 2").waitFor();
    await page.button("Version after").click();
    await page.shows(second);
  },

  async "an earlier message is edited, and the first version stays"(page) {
    await shortAnswers(page, 8);
    await page.ask("First question");
    await page.ask("Second question");
    await page.questions.first().hover();
    await page.button("Edit this message").first().click();
    const editor = page.raw.getByLabel("Edit your message");
    await editor.fill("Edited question");
    await editor.press("Enter");
    await page.raw.getByLabel("Version 2 of 2").waitFor();
    await page.answered();
    assert.equal(await page.questions.count(), 1);
    assert.match(await page.questions.first().innerText(), /Edited question/);
    await page.button("Version before").first().click();
    assert.equal(await page.questions.count(), 2);
    assert.match(await page.questions.first().innerText(), /First question/);
  },

  async "the keyboard alone is enough"(page) {
    const { keyboard } = page.raw;
    await shortAnswers(page, 8);
    await keyboard.press("Alt+i");
    await keyboard.type("first line");
    await keyboard.press("Shift+Enter");
    await keyboard.type("second line");
    await keyboard.press("Enter");
    await page.answers.first().waitFor();
    await page.answered();
    assert.match(await page.questions.first().innerText(), /first line\nsecond line/);
    await keyboard.press("Alt+r");
    await page.raw.getByLabel("Version 2 of 2").waitFor();
    await page.answered();
    await keyboard.press("ArrowUp");
    await page.focused(page.raw.getByLabel("Edit your message"));
    await keyboard.press("ControlOrMeta+a");
    await keyboard.type("instead");
    await keyboard.press("Enter");
    await page.raw.locator(".question-text", { hasText: "instead" }).waitFor();
    await page.answered();
    await keyboard.press("Alt+k");
    await page.raw.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await keyboard.press("Escape");
    await keyboard.press("Alt+n");
    await page.raw.locator(".welcome").waitFor();
    await page.focused(page.prompt);
    await keyboard.press("Shift+Tab");
    await keyboard.press("Shift+Tab");
    assert.equal(await page.raw.evaluate(() => document.activeElement.className), "idea");
  },

  async "a telephone shows all of it"(page) {
    await page.raw.setViewportSize(PHONE);
    await page.reload();
    await page.fits();
    await shortAnswers(page, 16);
    await page.ask(`A question with a long word: ${"unbreakable".repeat(12)}`);
    await page.fits();
    await page.shot("page");
    await page.button("Show the conversations").click();
    await page.raw.getByRole("navigation", { name: "Conversations" }).waitFor();
    await page.fits();
    await page.shot("list");
    await page.raw.keyboard.press("Escape");
    await page.settings(async () => {
      await page.fits();
      await page.shot("settings");
    });
  },
};

export const chatWithSlow = {
  async "an answer streams in"(page) {
    const seen = [];
    await page.raw.exposeFunction("sawText", (length) => seen.push(length));
    await page.raw.evaluate(() => {
      new MutationObserver(() => {
        const prose = document.querySelector("li.answer[aria-busy=true] > .prose");
        if (prose) globalThis.sawText(prose.textContent.length);
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    await shortAnswers(page, 80);
    await page.ask("Tell me a slow story.");
    assert.ok(new Set(seen).size >= 3, `the text grew in steps: ${seen}`);
  },

  async "an answer is stopped by button and by key, and what came is kept"(page) {
    for (const [nth, stop] of [() => page.button("Stop (Esc)").click(), () => page.raw.keyboard.press("Escape")].entries()) {
      await page.send("Write a long and slow story.");
      await page.writing();
      await stop();
      const text = await page.answered();
      assert.notEqual(text, "");
      assert.equal(await page.answers.count(), nth + 1);
      assert.match(await page.answers.last().innerText(), /Stopped\./);
    }
    const text = await page.lastText();
    await page.reload();
    await page.shows(text);
  },
};

/** Keeps answers of a real model short, and the same each time. */
async function shortAnswers(page, n) {
  await page.settings(async (dialog) => {
    await dialog.getByLabel("Longest answer").fill(String(n));
    await dialog.getByLabel("Seed").fill("1");
  });
}
