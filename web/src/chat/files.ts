// Conversations go to a file and come from one.
import { readTalks, writeTalks } from "./exchange.ts";
import { takeIn } from "./store.ts";
import type { Talk } from "./types.ts";
import { note } from "./ui.ts";

export function exportTalks(talks: Talk[]): void {
  const [only] = talks;
  const name = talks.length === 1 && only ? fileName(only.title) : "conversations";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([writeTalks(talks)], { type: "application/json" }));
  link.download = `${name}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

export async function importFile(file: File): Promise<void> {
  const read = readTalks(await file.text());
  if ("error" in read) {
    note.value = { text: `Nothing was imported: ${read.error}` };
    return;
  }
  await takeIn(read.talks);
  const n = read.talks.length;
  note.value = { text: `Imported ${n} ${n === 1 ? "conversation" : "conversations"}.` };
}

function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "conversation";
}
