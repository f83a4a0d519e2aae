// Builds every page of src/ into dist/, which is committed: a fresh clone needs cargo only, and the same sources give the
// same bytes (`npm ci && npm run build`; tests/reproducible.mjs compares).
//
// A page is a folder src/NAME with an index.html and a main.tsx; it becomes NAME.html, NAME.js and NAME.css. What pages
// share lies in src/common. No page loads anything but its own files: the server's content policy forbids the rest.
import { build } from "esbuild";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const src = join(root, "src");

/** Names of the pages: the folders of src/ that have an index.html. */
function pages() {
  return readdirSync(src).filter((name) => existsSync(join(src, name, "index.html"))).sort();
}

/** The licence texts of the packages in the bundle, which their licences ask to pass on. */
function licences(inputs) {
  const packages = new Set();
  for (const path of Object.keys(inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (match) packages.add(match[1]);
  }
  return [...packages].sort().map(licence).join("\n");
}

function licence(name) {
  const folder = join(root, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).sort().find((entry) => /^licen[sc]e/i.test(entry));
  if (!file) throw new Error(`${name}: no licence file in the package`);
  const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim();
  return `${name} ${version} (${license})\n\n${text}\n\n${"-".repeat(72)}\n`;
}

/** Builds all pages into `out`, replacing what is there. */
export async function buildPages(out) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const shared = {
    absWorkingDir: root,
    bundle: true,
    minify: true,
    charset: "utf8",
    legalComments: "none",
    target: ["chrome109", "firefox115", "safari16.4"],
    metafile: true,
    jsx: "automatic",
    jsxImportSource: "preact",
  };
  const entries = Object.fromEntries(pages().map((name) => [name, `src/${name}/main.tsx`]));
  const built = await build({ ...shared, entryPoints: entries, outdir: out, format: "esm" });
  await build({ ...shared, entryPoints: { theme: "src/common/theme-boot.ts" }, outdir: out, format: "iife" });
  for (const name of pages()) {
    writeFileSync(join(out, `${name}.html`), readFileSync(join(src, name, "index.html")));
  }
  writeFileSync(join(out, "icon.svg"), readFileSync(join(src, "common", "icon.svg")));
  writeFileSync(join(out, "licences.txt"), licences(built.metafile.inputs));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = process.argv[2] ?? join(root, "dist");
  await buildPages(out);
  for (const name of readdirSync(out).sort()) {
    console.log(`${String(readFileSync(join(out, name)).length).padStart(8)}  ${name}`);
  }
}
