// Settings of the sampler. Only what the reader set goes to the server; for the rest its own defaults hold, and are shown.
import { signal } from "@preact/signals";
import { load, save } from "../common/storage.ts";

export interface Sampling {
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  repeat_penalty?: number;
  max_tokens?: number;
  seed?: number;
}

export interface SamplingField {
  name: keyof Sampling;
  label: string;
  hint: string;
  min: number;
  max: number;
  step: number;
}

export const SAMPLING_FIELDS: readonly SamplingField[] = [
  { name: "temperature", label: "Temperature", hint: "0 always takes the likeliest word; higher is freer.", min: 0, max: 2, step: 0.05 },
  { name: "top_k", label: "Top k", hint: "Chooses among this many words; 0 for all.", min: 0, max: 1000, step: 1 },
  { name: "top_p", label: "Top p", hint: "Chooses among words that make up this share.", min: 0, max: 1, step: 0.01 },
  { name: "min_p", label: "Min p", hint: "Drops words below this share of the likeliest.", min: 0, max: 1, step: 0.01 },
  { name: "repeat_penalty", label: "Repeat penalty", hint: "Above 1 makes repetition less likely.", min: 0.5, max: 2, step: 0.01 },
  { name: "max_tokens", label: "Longest answer", hint: "In tokens.", min: 1, max: 1_000_000, step: 1 },
  { name: "seed", label: "Seed", hint: "The same seed gives the same answer.", min: 0, max: 4_294_967_295, step: 1 },
];

const KEY = "minfer.sampling";
const SYSTEM_KEY = "minfer.system";
const TOOLS_KEY = "minfer.tools";

export const sampling = signal<Sampling>(readSampling(load(KEY)));

/** The system prompt that new conversations begin with. */
export const defaultSystem = signal(load(SYSTEM_KEY) ?? "");

/** Tools offered to the model, as JSON that the reader wrote. */
export const toolsText = signal(load(TOOLS_KEY) ?? "");

/** `undefined` gives the field back to the server. */
export function setSampling(name: keyof Sampling, value: number | undefined): void {
  const next = { ...sampling.value };
  if (value === undefined) delete next[name];
  else next[name] = value;
  sampling.value = next;
  save(KEY, Object.keys(next).length > 0 ? JSON.stringify(next) : null);
}

export function resetSampling(): void {
  sampling.value = {};
  save(KEY, null);
}

export function setDefaultSystem(text: string): void {
  defaultSystem.value = text;
  save(SYSTEM_KEY, text === "" ? null : text);
}

export function setTools(text: string): void {
  toolsText.value = text;
  save(TOOLS_KEY, text.trim() === "" ? null : text);
}

/** The tools, none, or what is wrong with their text. */
export function parseTools(text: string): { tools?: unknown[]; error?: string } {
  if (text.trim() === "") return {};
  try {
    const tools: unknown = JSON.parse(text);
    if (!Array.isArray(tools)) return { error: "Must be a JSON array of tools." };
    return tools.length > 0 ? { tools } : {};
  } catch (error) {
    return { error: `Is not JSON: ${error instanceof Error ? error.message : "unreadable"}` };
  }
}

/** Whether a field takes a value. */
export function accepts(field: SamplingField, value: number): boolean {
  const whole = field.step !== 1 || Number.isInteger(value);
  return Number.isFinite(value) && value >= field.min && value <= field.max && whole;
}

function readSampling(text: string | null): Sampling {
  const read: Sampling = {};
  try {
    const stored = JSON.parse(text ?? "{}") as Record<string, unknown>;
    for (const field of SAMPLING_FIELDS) {
      const value = stored[field.name];
      if (typeof value === "number" && accepts(field, value)) read[field.name] = value;
    }
  } catch {
    // Written by something else: the server's defaults then.
  }
  return read;
}
