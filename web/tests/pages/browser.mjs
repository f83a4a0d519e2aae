// A browser whose pages are watched, and a page with the words that scenarios use.
import assert from "node:assert/strict";
import { join } from "node:path";
import { chromium } from "playwright-core";

const TIMEOUT_MS = 30_000;
/** Chromium reports an answer that is no success, or breaks, as an error of the console; scenarios that want one say so. */
const REFUSED = /^Failed to load resource/;

export class Browser {
  #browser;
  #shots;

  constructor(browser, shots) {
    this.#browser = browser;
    this.#shots = shots;
  }

  static async launch(executablePath, shots) {
    // Tests run as root in containers, where Chromium's sandbox cannot be set up; they load no page but ours.
    return new Browser(await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] }), shots);
  }

  close() {
    return this.#browser.close();
  }

  /** Runs a scenario in a profile of its own, and fails if anything went wrong on the page. `refused`: the first requests are. */
  async run(url, name, refused, scenario) {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true });
    context.setDefaultTimeout(TIMEOUT_MS);
    const wrong = [];
    const host = new URL(url).host;
    context.on("request", (request) => {
      const asked = new URL(request.url());
      if (asked.protocol.startsWith("http") && asked.host !== host) wrong.push(`a request to ${asked.host}`);
    });
    context.on("weberror", ({ error }) => wrong.push(`uncaught: ${String(error())}`));
    const page = new ChatPage(await context.newPage(), url, (part) => join(this.#shots, `${name.replaceAll(/\W+/g, "-")}-${part}.png`));
    page.expectsRefusal = refused;
    context.on("console", (message) => {
      const expected = page.expectsRefusal && REFUSED.test(message.text());
      if (["error", "warning"].includes(message.type()) && !expected) wrong.push(`console: ${message.text()}`);
    });
    try {
      await page.open();
      await scenario(page);
      await page.fits();
      assert.deepEqual(wrong, []);
    } catch (error) {
      await page.shot("failed").catch(() => undefined);
      throw wrong.length > 0 ? new Error(`${error.message}; on the page: ${wrong.join("; ")}`, { cause: error }) : error;
    } finally {
      await context.close();
    }
  }
}

/** The chat page. `raw` is Playwright's page. */
export class ChatPage {
  expectsRefusal = false;

  constructor(raw, url, shotPath) {
    this.raw = raw;
    this.url = url;
    this.shotPath = shotPath;
  }

  async open() {
    await this.raw.goto(this.url);
    await this.prompt.waitFor();
  }

  async reload() {
    await this.raw.reload();
    await this.prompt.waitFor();
  }

  get prompt() {
    return this.raw.locator("#prompt");
  }

  get answers() {
    return this.raw.locator("li.answer");
  }

  get questions() {
    return this.raw.locator("li.question");
  }

  button(name) {
    return this.raw.getByRole("button", { name });
  }

  async send(text) {
    await this.prompt.fill(text);
    await this.prompt.press("Enter");
  }

  /** Sends, and waits for the whole answer, which is returned as text. */
  async ask(text) {
    const before = await this.answers.count();
    await this.send(text);
    await this.answers.nth(before).waitFor();
    return this.answered();
  }

  /** Waits until nothing is being written. */
  async answered() {
    await this.button("Send (Enter)").waitFor();
    return this.lastText();
  }

  /** Waits until `field` is there and has the focus. */
  async focused(field) {
    await field.and(this.raw.locator(":focus")).waitFor();
  }

  async lastText() {
    const prose = this.answers.last().locator("> .prose");
    return (await prose.count()) > 0 ? (await prose.innerText()).trim() : "";
  }

  /** Waits until an answer has begun to be written. */
  async writing() {
    await this.raw.locator("li.answer[aria-busy=true] > .prose").waitFor();
  }

  async settings(act) {
    await this.raw.getByRole("button", { name: "Settings", exact: true }).click();
    await act(this.raw.getByRole("dialog", { name: "Settings" }));
    await this.raw.keyboard.press("Escape");
  }

  /** Waits until `condition` holds on the page. */
  until(condition, argument) {
    return this.raw.waitForFunction(condition, argument);
  }

  /** Waits until the page has these colours. */
  async isTheme(name) {
    await this.until((name) => document.documentElement.dataset.theme === name, name);
  }

  /** The system's colours, which the page follows a moment later. */
  async inColours(colorScheme, more = {}) {
    await this.raw.emulateMedia({ colorScheme, ...more });
    await this.isTheme(colorScheme);
  }

  /** Waits until the last answer is this text, or what a pattern asks for: a page that was just opened shows it a moment later. */
  async shows(expected) {
    const holds = (text) => (expected instanceof RegExp ? expected.test(text) : expected === text);
    const end = Date.now() + TIMEOUT_MS;
    let text = await this.lastText();
    while (!holds(text) && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      text = await this.lastText();
    }
    assert.ok(holds(text), `the last answer is ${JSON.stringify(text)} instead of ${expected}`);
  }

  /** Nothing is wider than the page. */
  async fits() {
    const wider = await this.raw.evaluate(() => {
      const widest = [...document.querySelectorAll("body *")].filter((element) => {
        const scrolls = element.closest(".code pre, .table, .tool-call pre, .attached-file pre, .hidden-label");
        return !scrolls && element.getBoundingClientRect().right > innerWidth + 1;
      });
      return { page: document.documentElement.scrollWidth - innerWidth, elements: widest.slice(0, 3).map((element) => element.outerHTML.slice(0, 120)) };
    });
    assert.ok(wider.page <= 0 && wider.elements.length === 0, `wider than the page: ${JSON.stringify(wider)}`);
  }

  async shot(part) {
    await this.raw.screenshot({ path: this.shotPath(part), animations: "disabled" });
  }
}
