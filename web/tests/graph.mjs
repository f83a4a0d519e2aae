// Drives the graph page in a headless Chromium on the real server: opens, folds and unfolds, stages, search, keys, a live
// run, values, a comparison, phone width, both themes; no console error, no request elsewhere, no fault that axe finds.
//
//   node tests/graph.mjs [--model FILE] [--screens FOLDER] [--frames] [--dist]
//
// Ends with how long frames take while a graph of 28 layers is moved and zoomed; --frames measures only that. --dist takes the
// pages of web/dist instead of those that are in the program. Without Chromium or a built minfer it says so and tests nothing;
// MINFER and CHROMIUM name them.
import { spawn } from "node:child_process";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { deepen } from "./deep.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const { values: options } = parseArgs({
  options: { model: { type: "string" }, screens: { type: "string" }, frames: { type: "boolean", default: false }, dist: { type: "boolean", default: false } },
});
const model = options.model ?? join(root, "tests/data/llama-q4_1.gguf");
const browserPath = first([process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]);
const minfer = first([process.env.MINFER, join(root, "target/release/minfer"), join(root, "target/debug/minfer")]);
if (!browserPath || !minfer) {
  console.log(`SKIPPED: the graph page is not driven, since ${browserPath ? "minfer is not built" : "Chromium is not installed"}`);
  process.exit(0);
}

function first(paths) {
  return paths.find((path) => path && existsSync(path));
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT = 60_000;

/** The server's address, once it says it. */
async function serve() {
  const child = spawn(minfer, ["viz", model, "--port", "0", "--no-open", "-t", "2"], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address within a minute: ${said}`)), WAIT);
    const read = (data) => {
      said += data;
      const found = /http:\/\/[\d.]+:\d+\/graph/.exec(said);
      if (found) {
        clearTimeout(timer);
        resolve(found[0]);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => reject(new Error(`minfer ended with ${code}: ${said}`)));
  });
  return { url, stop: () => child.kill() };
}

/** A page, and what it did that it must not. */
async function openPage(browser, url, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, reducedMotion: "reduce", ...settings });
  if (options.dist) {
    await context.route(/\/assets\/[\w.]+$/, (route) => route.fulfill({ path: join(root, "web/dist", new URL(route.request().url()).pathname.split("/").pop()) }));
  }
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  const faults = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) faults.push(`elsewhere: ${request.url()}`);
  });
  await page.goto(url);
  await page.locator(".canvas .block").first().waitFor();
  return { page, faults, close: () => context.close() };
}

async function screen(page, name) {
  if (!options.screens) return;
  mkdirSync(options.screens, { recursive: true });
  await page.screenshot({ path: join(options.screens, `${name}.png`) });
}

async function accessible(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(told, [], `faults of accessibility, ${where}`);
}

async function noOverflow(page, where) {
  const { width, seen } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, seen: innerWidth }));
  assert.ok(width <= seen, `${where}: the page is ${width} wide, the window ${seen}`);
}

/** As many layers as a model of 7 B parameters has. */
const N_DEEP = 28;

/** Shows the model's graph with many layers, whatever it has. */
async function goDeep(page, url) {
  await page.route("**/graph/stages", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: deepen(await answer.json(), N_DEEP) });
  });
  await page.goto(url);
  await page.locator(`.block[aria-label="Layer ${N_DEEP - 1}"]`).waitFor();
}

const count = (page, selector) => page.locator(selector).count();

const checks = {
  async "a layer opens and folds, and so do all of them"(page) {
    const folded = await count(page, ".is-folded");
    assert.ok(folded >= 2, "layers begin folded");
    const before = await count(page, ".node");
    await page.locator(".is-folded .hit").first().click();
    assert.equal(await count(page, ".is-folded"), folded - 1);
    assert.ok((await count(page, ".node")) > before);
    await screen(page, "1-one-layer");
    await page.getByRole("button", { name: "Open all" }).click();
    assert.equal(await count(page, ".is-folded"), 0);
    await page.getByRole("button", { name: "Fold all" }).click();
    assert.equal(await count(page, ".is-folded"), folded);
  },

  async "stages show what each pass decides"(page) {
    await page.locator(".is-folded .hit").first().click();
    const radio = (name) => page.getByRole("radio", { name });
    await radio("Build").click();
    assert.equal(await count(page, ".node.on-cpu"), 0, "nobody owns a node yet");
    await radio("Assign").click();
    assert.ok((await count(page, ".node.on-cpu")) > 0);
    assert.equal(await count(page, ".is-orphan"), 0);
    await radio("Fuse").click();
    assert.equal(await count(page, ".is-fused"), 1, "the product has become SwiGLU");
    assert.equal(await count(page, ".is-orphan"), 1, "the Silu has faded");
    assert.match(await page.locator(".is-fused").getAttribute("aria-label"), /SwiGLU/);
    await screen(page, "2-fused");
    await radio("Plan").click();
    await page.getByLabel("Colour by").selectOption("memory");
    assert.ok((await count(page, ".node.has-hue")) > 5, "buffers have colours");
    await screen(page, "3-planned");
    await page.getByLabel("Colour by").selectOption("backend");
  },

  async "the passes play one after the other"(page) {
    await page.getByRole("button", { name: "Let the passes happen" }).click();
    assert.equal(await page.locator(".segment[aria-checked=true]").innerText(), "Build");
    await page.locator(".segment[aria-checked=true]", { hasText: "Plan" }).waitFor();
  },

  async "search finds by name, op and weight"(page) {
    await page.locator(".canvas").first().focus();
    await page.keyboard.press("/");
    await page.keyboard.type("silu");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Enter");
    await page.locator("#panel h2", { hasText: "ffn" }).waitFor();
    await page.getByLabel("Search nodes").fill("blk.1.attn_q.weight");
    assert.ok((await count(page, "[role=option]")) >= 1);
    await page.getByRole("option").first().click();
    await page.locator("#panel h2", { hasText: "1." }).waitFor();
    assert.match(await page.locator("#panel").innerText(), /blk\.1\.attn_q\.weight/);
    await screen(page, "4-node");
  },

  async "arrow keys walk the nodes, Enter opens, Esc folds"(page) {
    await page.getByRole("button", { name: "Fold all" }).click();
    const canvas = page.locator(".canvas").first();
    await canvas.focus();
    await page.keyboard.press("Home");
    const active = () => canvas.getAttribute("aria-activedescendant");
    const seen = new Set();
    for (let i = 0; i < 40 && !(await active())?.startsWith("a-l"); i++) {
      seen.add(await active());
      await page.keyboard.press("ArrowDown");
    }
    assert.equal(await active(), "a-l0", `walked ${[...seen]}`);
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("#a-l0").getAttribute("aria-expanded"), "true");
    await page.keyboard.press("ArrowDown");
    const node = await active();
    assert.match(node, /^a-n\d+$/);
    assert.ok(await page.locator(`#${node}`).getAttribute("aria-label"));
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await active(), node);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#a-l0").getAttribute("aria-expanded"), "false");
    assert.equal(await active(), "a-l0");
  },

  async "a prompt runs live, and values can be looked at"(page) {
    await page.getByRole("tab", { name: "Run" }).click();
    await page.getByLabel("Prompt").fill("the quick brown fox");
    await page.locator(".run-form").getByLabel("Tokens").fill("6");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText(/^ended:/).waitFor();
    assert.match(await page.getByText(/^ended:/).innerText(), /as many tokens|end of text/);
    assert.ok((await count(page, ".bars .is-chosen")) >= 1, "the chosen token stands out");
    assert.match(await page.locator(".kv").innerText(), /of \d+ tokens/);
    await page.getByRole("button", { name: "Open all" }).click();
    assert.ok((await count(page, ".node.has-heat")) > 5, "nodes have the colour of their time");
    await screen(page, "5-run");
    await page.getByRole("slider", { name: "Step" }).fill("0");
    await page.getByText("prefill of").waitFor();
    await page.getByLabel("Search nodes").fill("0.attn_norm");
    await page.getByRole("option").first().click();
    await page.getByRole("tab", { name: "Node" }).click();
    await page.locator(".histogram").waitFor();
    await page.locator("canvas.heat").waitFor();
    assert.match(await page.locator(".values").innerText(), /all finite/);
    await page.locator("#panel").evaluate((panel) => panel.scrollTo(0, panel.scrollHeight));
    await screen(page, "6-values");
  },

  async "the memory plan is a picture"(page) {
    await page.getByRole("tab", { name: "Memory" }).click();
    assert.ok((await count(page, ".life")) > 10);
    await page.getByLabel("colour the graph").check();
    await screen(page, "7-memory");
    await page.locator(".life").nth(8).dispatchEvent("click");
    assert.equal(await count(page, ".memory .mine"), 1);
    await page.getByLabel("heights to scale").check();
    assert.match(await page.locator("#panel").innerText(), /Shared with/);
  },

  async "two settings are compared side by side"(page) {
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.getByRole("textbox", { name: "Prompt" }).fill("the quick brown fox");
    await page.getByLabel("b", { exact: true }).fill("fuse=off");
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.locator(".verdict.same").waitFor();
    assert.equal(await count(page, ".canvas"), 2, "both graphs are shown");
    await page.getByLabel("b", { exact: true }).fill("kv=f32");
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.locator(".verdict.differs").waitFor();
    assert.match(await page.getByLabel("Outcome").innerText(), /0\.k_store/);
    assert.ok((await count(page, ".node.is-marked")) >= 2, "the first that differs stands out on both sides");
    await screen(page, "8-compare");
    await page.getByRole("button", { name: "Close" }).click();
    assert.equal(await count(page, ".canvas"), 1);
  },

  async "from afar a sketch stands in for the drawing, and all of it can be used"(page, url) {
    await goDeep(page, url);
    const canvas = page.locator(".canvas").first();
    await page.getByRole("button", { name: "Open all" }).click();
    await page.getByRole("button", { name: /Fit/ }).click();
    await page.locator(".canvas.is-far").waitFor();
    assert.ok((await coloursSeen(page)) >= 3, "plates, boxes and lines are on the sketch");
    await screen(page, "10-from-afar");
    const last = page.locator(".node[aria-label^='logits,']");
    await last.click();
    await page.locator("#panel h2", { hasText: "logits" }).waitFor();
    assert.equal(await canvas.getAttribute("aria-activedescendant"), await last.getAttribute("id"));
    await page.getByLabel("Colour by").selectOption("memory");
    assert.ok((await coloursSeen(page)) >= 6, "the sketch has the colours of buffers");
    await screen(page, "11-from-afar-memory");
    await canvas.focus();
    await page.keyboard.press("ArrowUp");
    await page.locator("#panel h2", { hasText: "output_norm" }).waitFor();
    await page.locator(".canvas:not(.is-far)").first().waitFor();
  },

  async "what is wrong is said in words"(page) {
    await page.getByLabel("Settings").fill("thread=1");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /is not a setting/);
    await page.getByLabel("Settings").fill("");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
  },
};

/** How many colours the sketch has, apart from those of blurred edges. */
function coloursSeen(page) {
  return page.locator("canvas.sketch").first().evaluate((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Map();
    for (let i = 0; i < data.length; i += 4) {
      const colour = data.slice(i, i + 4).join();
      seen.set(colour, (seen.get(colour) ?? 0) + 1);
    }
    return [...seen.values()].filter((n) => n > 300).length;
  });
}

/** Frame times while `act` moves the drawing: median, 95th percentile, longest, in milliseconds. */
async function frames(page, act) {
  await page.evaluate(() => {
    globalThis.frameTimes = [];
    let last = performance.now();
    const tick = (now) => {
      globalThis.frameTimes.push(now - last);
      last = now;
      globalThis.frameLoop = requestAnimationFrame(tick);
    };
    globalThis.frameLoop = requestAnimationFrame(tick);
  });
  await act();
  const times = await page.evaluate(() => {
    cancelAnimationFrame(globalThis.frameLoop);
    return globalThis.frameTimes.slice(2);
  });
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  return `${times.length} frames, median ${at(0.5).toFixed(1)}, 95 % ${at(0.95).toFixed(1)}, longest ${at(1).toFixed(1)} ms`;
}

async function panAndZoom(page) {
  const box = await page.locator(".canvas").first().boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  for (let i = 0; i < 60; i++) await page.mouse.move(x + Math.sin(i / 5) * 150, y - i * 5);
  await page.mouse.up();
  for (let i = 0; i < 30; i++) await page.mouse.wheel(0, i < 15 ? 120 : -120);
}

async function measure(page) {
  console.log(`nodes: ${await page.locator(".canvas").first().getAttribute("aria-label")}`);
  for (const [name, prepare] of [
    ["everything folded", async () => page.getByRole("button", { name: "Fold all" }).click()],
    ["one layer open", async () => page.locator(".is-folded .hit").nth(1).click()],
    ["everything open", async () => page.getByRole("button", { name: "Open all" }).click()],
    ["everything open, all of it seen", async () => page.getByRole("button", { name: /Fit/ }).click()],
  ]) {
    const start = Date.now();
    await prepare();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const took = Date.now() - start;
    console.log(`${name} (${took} ms to show, ${await count(page, ".node")} nodes drawn): ${await frames(page, () => panAndZoom(page))}`);
  }
}

const server = await serve();
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
let failed = 0;
try {
  if (!options.frames) {
    for (const [name, check] of Object.entries(checks)) {
      const { page, faults, close } = await openPage(browser, server.url, { colorScheme: name.includes("live") ? "dark" : "light" });
      try {
        await check(page, server.url);
        await accessible(page, name);
        await noOverflow(page, name);
        assert.deepEqual(faults.filter((it) => !(name.startsWith("what is wrong") && it.includes("400"))), []);
        console.log(`ok    ${name}`);
      } catch (error) {
        failed++;
        console.error(`FAIL  ${name}\n${error.stack}\n${faults.join("\n")}`);
        await screen(page, `failed-${failed}`);
      }
      await close();
    }
    failed += await phone(browser, server.url);
  }
  const { page, close } = await openPage(browser, server.url);
  await goDeep(page, server.url);
  await measure(page);
  await close();
} finally {
  await browser.close();
  server.stop();
}
process.exitCode = failed > 0 ? 1 : 0;

/** The page on a phone: nothing is wider than the window, and all of it can be used. */
async function phone(browser, url) {
  const { page, faults, close } = await openPage(browser, url, { viewport: { width: 375, height: 720 }, hasTouch: true, colorScheme: "dark" });
  try {
    await noOverflow(page, "phone");
    const labels = page.locator(".step-form label span, .colours label span");
    const widths = await labels.evaluateAll((all) => all.map((it) => it.getBoundingClientRect().width));
    assert.ok(widths.length === 3 && widths.every((width) => width > 20), `labels are as wide as their words: ${widths}`);
    await page.locator(".is-folded .hit").first().tap();
    for (const name of ["Node", "Run", "Memory", "Compare"]) {
      await page.getByRole("tab", { name }).click();
      await noOverflow(page, `phone, ${name}`);
      await accessible(page, `phone, ${name}`);
    }
    await page.evaluate(() => scrollTo(0, 0));
    await screen(page, "9-phone");
    assert.deepEqual(faults, []);
    console.log("ok    a phone shows all of it");
    return 0;
  } catch (error) {
    console.error(`FAIL  a phone shows all of it\n${error.stack}`);
    await screen(page, "failed-phone");
    return 1;
  } finally {
    await close();
  }
}
