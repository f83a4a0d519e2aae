// What is open on the page.
import { signal } from "@preact/signals";
import { load, save } from "../common/storage.ts";

const LIST_KEY = "minfer.list";
const narrow = matchMedia("(max-width: 52rem)");

/** Whether the page is too narrow to show the list beside the conversation. */
export const isNarrow = signal(narrow.matches);
export const listOpen = signal(!narrow.matches && load(LIST_KEY) !== "closed");
export const dialog = signal<"settings" | "shortcuts" | null>(null);

/** Something that happened, and how to undo it. */
export interface Note {
  text: string;
  undo?: () => void;
}

export const note = signal<Note | null>(null);

narrow.addEventListener("change", () => {
  isNarrow.value = narrow.matches;
  listOpen.value = !narrow.matches && load(LIST_KEY) !== "closed";
});

export function toggleList(open: boolean = !listOpen.peek()): void {
  listOpen.value = open;
  if (!narrow.matches) save(LIST_KEY, open ? null : "closed");
}

/** On a narrow page the list lies over the conversation, and goes when something was chosen. */
export function leaveList(): void {
  if (narrow.matches) listOpen.value = false;
}

export function focusPrompt(): void {
  document.querySelector<HTMLTextAreaElement>("#prompt")?.focus();
}
