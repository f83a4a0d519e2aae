// Light or dark: as the system says, until the reader chooses. The attribute data-theme on the root element is always set.
import { load, save } from "./storage.ts";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "minfer.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function themeChoice(): ThemeChoice {
  const stored = load(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function chooseTheme(choice: ThemeChoice): void {
  save(KEY, choice === "system" ? null : choice);
  applyTheme();
}

export function applyTheme(): void {
  const choice = themeChoice();
  document.documentElement.dataset["theme"] = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
}

/** Keeps the page as the system is, and as another tab of these pages chooses. */
export function followTheme(): void {
  applyTheme();
  dark.addEventListener("change", applyTheme);
  addEventListener("storage", (event) => {
    if (event.key === KEY) applyTheme();
  });
}
