// axe-core finds nothing serious, in either theme, on any part of the page.
import assert from "node:assert/strict";
import axe from "axe-core";

async function nothingSerious(page, part) {
  // Evaluated, not inserted as a script element, which the content policy would refuse.
  await page.raw.evaluate(axe.source);
  const { violations } = await page.raw.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 160)).slice(0, 3).join(" ; ")}`);
  assert.deepEqual(told, [], part);
}

async function everyPart(page) {
  await nothingSerious(page, "welcome");
  await page.ask("think");
  await page.ask("markdown");
  await page.ask("tool");
  await page.raw.locator(".reasoning summary").first().click();
  await nothingSerious(page, "conversation");
  page.expectsRefusal = true;
  await page.ask("busy");
  await nothingSerious(page, "error");
  await page.settings(() => nothingSerious(page, "settings"));
  await page.raw.keyboard.press("Alt+k");
  await nothingSerious(page, "shortcuts");
  await page.raw.keyboard.press("Escape");
  await page.raw.setViewportSize({ width: 390, height: 844 });
  await page.button("Show the conversations").click();
  await nothingSerious(page, "list on a telephone");
}

export const accessibility = Object.fromEntries(
  ["light", "dark"].map((scheme) => [
    `everybody can use the ${scheme} page`,
    async (page) => {
      await page.inColours(scheme, { reducedMotion: "reduce" });
      await everyPart(page);
    },
  ]),
);
