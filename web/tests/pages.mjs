// Drives the pages in a headless Chromium: `node tests/pages.mjs [URL [--quick]] [--only PART]`. Without a URL, against the
// server that pretends, which also does what a model would not do on demand; with one, against that server; --quick says that
// its answers come too quickly to be watched or stopped.
// Every scenario fails on console errors, uncaught errors, requests to other hosts, and content wider than the page.
// Screenshots go to target/web. CHROMIUM names the browser; without one, nothing is tested, and it is said so.
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startMock } from "../dev/mock.mjs";
import { Browser } from "./pages/browser.mjs";
import { chatWithAny, chatWithSlow } from "./pages/chat.mjs";
import { chatWithMock } from "./pages/pretended.mjs";
import { accessibility } from "./pages/accessibility.mjs";

const chromium = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
if (!chromium) {
  console.log("SKIPPED: the pages are not driven, since there is no Chromium (CHROMIUM names one)");
  process.exit(0);
}

const args = process.argv.slice(2);
const only = args.includes("--only") ? args[args.indexOf("--only") + 1] : "";
const url = args.find((arg) => arg.startsWith("http"));
const quick = args.includes("--quick");
const scenarios = { ...chatWithAny, ...(quick ? {} : chatWithSlow), ...(url ? {} : { ...chatWithMock, ...accessibility }) };
const shots = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "target", "web");
mkdirSync(shots, { recursive: true });

const browser = await Browser.launch(chromium, shots);
let failed = 0;
try {
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (name.includes(only) && !(await passes(name, scenario))) failed++;
  }
} finally {
  await browser.close();
}
process.exitCode = failed > 0 ? 1 : 0;

async function passes(name, scenario) {
  const mock = url ? undefined : await startMock({ key: scenario.key });
  const began = performance.now();
  try {
    await browser.run(url ?? mock.url, name, scenario.key !== undefined, (page) => scenario(page, mock));
    console.log(`ok      ${name} (${Math.round(performance.now() - began)} ms)`);
    return true;
  } catch (error) {
    console.log(`FAILED  ${name}\n${error.stack}\n`);
    return false;
  } finally {
    mock?.close();
  }
}
