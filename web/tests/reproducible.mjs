// The committed pages are what their sources give: builds into a temporary folder and compares byte for byte.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildPages } from "../build.mjs";

const committed = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");
const fresh = mkdtempSync(join(tmpdir(), "minfer-web-"));
try {
  await buildPages(fresh);
  const names = new Set([...readdirSync(committed), ...readdirSync(fresh)]);
  const differing = [...names].sort().filter((name) => !same(join(committed, name), join(fresh, name)));
  if (differing.length > 0) {
    console.error(`web/dist is not what its sources give: ${differing.join(", ")}; run npm ci && npm run build in web/ and commit`);
    process.exitCode = 1;
  } else {
    console.log(`web/dist: ${names.size} files, all as built`);
  }
} finally {
  rmSync(fresh, { recursive: true });
}

function same(a, b) {
  try {
    return readFileSync(a).equals(readFileSync(b));
  } catch {
    return false;
  }
}
