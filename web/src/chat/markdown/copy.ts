import { copyText } from "../../common/clipboard.ts";

const SHOWN_MS = 1600;

/** For the click of any container of code blocks: copies the code whose button was pressed. */
export function copyCode(event: Event): void {
  const button = event.target instanceof Element ? event.target.closest<HTMLButtonElement>("button.code-copy") : null;
  const code = button?.closest(".code")?.querySelector("code");
  if (!button || !code) return;
  void copyText((code.textContent ?? "").replace(/\n$/, "")).then((copied) => {
    button.textContent = copied ? "Copied" : "Not allowed";
    setTimeout(() => {
      button.textContent = "Copy";
    }, SHOWN_MS);
  });
}
