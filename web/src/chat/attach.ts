// Text files of the reader. Whatever is not text is refused, with its reason.
import type { Attachment } from "./types.ts";

const MAX_BYTES = 1 << 20;

export async function readFiles(files: Iterable<File>): Promise<{ attachments: Attachment[]; refused: string[] }> {
  const attachments: Attachment[] = [];
  const refused: string[] = [];
  for (const file of files) {
    const read = await readFile(file);
    if (typeof read === "string") refused.push(`${file.name}: ${read}`);
    else attachments.push(read);
  }
  return { attachments, refused };
}

async function readFile(file: File): Promise<Attachment | string> {
  if (file.size > MAX_BYTES) return "larger than 1 MB";
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? "not a text file" : { name: file.name, text };
  } catch {
    return "not a text file in UTF-8";
  }
}
