// What the page knows of its server: the model's name, the size of its context, its defaults, and whether it wants a key.
import { signal } from "@preact/signals";
import { getJson, type Problem, RequestError, UNREACHABLE } from "../common/http.ts";
import { SAMPLING_FIELDS, type Sampling } from "./settings.ts";

export interface ServerFacts {
  model: string;
  nCtx?: number;
  defaults: Sampling;
}

export const facts = signal<ServerFacts | null>(null);
export const serverProblem = signal<Problem | null>(null);

interface Models {
  data?: { id?: string; meta?: { n_ctx?: number } }[];
}

interface Props {
  default_generation_settings?: { n_ctx?: number; params?: Record<string, unknown> } & Record<string, unknown>;
}

/** Asks the server about itself; `serverProblem` says why it could not be told. */
export async function meetServer(): Promise<void> {
  try {
    const models = await getJson<Models>("v1/models");
    const props = await getJson<Props>("props").catch(() => ({}) as Props);
    facts.value = readFacts(models, props);
    serverProblem.value = null;
  } catch (error) {
    serverProblem.value = error instanceof RequestError ? error.problem : UNREACHABLE;
  }
}

export function readFacts(models: Models, props: Props): ServerFacts {
  const settings = props.default_generation_settings;
  const given = settings?.params ?? settings ?? {};
  const defaults: Sampling = {};
  for (const { name } of SAMPLING_FIELDS) {
    const value = name === "max_tokens" ? (given["max_tokens"] ?? given["n_predict"]) : given[name];
    // -1 stands for "no limit" and "any seed".
    if (typeof value === "number" && value >= 0 && !(name === "seed" && value === 4_294_967_295)) defaults[name] = value;
  }
  const first = models.data?.[0];
  const nCtx = settings?.n_ctx ?? first?.meta?.n_ctx;
  return { model: first?.id ?? "model", defaults, ...(typeof nCtx === "number" ? { nCtx } : {}) };
}
