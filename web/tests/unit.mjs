// Bundles tests/unit/*.test.mjs, which import the sources, and runs them.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "minfer-web-unit-"));
try {
  const entryPoints = readdirSync(join(here, "unit")).filter((name) => name.endsWith(".test.mjs")).map((name) => join(here, "unit", name));
  await build({ entryPoints, outdir: out, outExtension: { ".js": ".mjs" }, bundle: true, platform: "node", format: "esm", jsx: "automatic", jsxImportSource: "preact", loader: { ".css": "empty" }, logLevel: "warning" });
  const files = readdirSync(out).map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", "--test-reporter=spec", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
