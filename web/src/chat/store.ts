// The conversations of this browser, and what can be done with them. Everything shown follows from these signals.
import { batch, computed, type Signal, signal } from "@preact/signals";
import { openStore, type TalkStore } from "./db.ts";
import { defaultSystem } from "./settings.ts";
import { newTalk } from "./tree.ts";
import { headOf, type Talk, type TalkHead } from "./types.ts";

/** Heads of all conversations, those changed last first. */
export const heads = signal<TalkHead[]>([]);

/** Whether conversations outlast the page. */
export const keeps = signal(true);

/** Why the last attempt to keep a conversation failed. */
export const storageProblem = signal<string | null>(null);

const currentId = signal<string | null>(null);
/** Conversations that were opened; one that was never written to is not among the heads. */
const opened = signal<ReadonlyMap<string, Signal<Talk>>>(new Map());

/** The conversation on the page. */
export const current = computed<Talk | null>(() => opened.value.get(currentId.value ?? "")?.value ?? null);

let store: TalkStore;
/** Tells the other tabs of this page that a conversation changed. */
const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("minfer-chat");

export async function openConversations(): Promise<void> {
  store = await openStore();
  keeps.value = store.keeps;
  await refreshHeads();
  tabs?.addEventListener("message", () => void refreshHeads());
  addEventListener("hashchange", () => void showAddressed());
  await showAddressed();
}

async function refreshHeads(): Promise<void> {
  heads.value = sorted(await store.heads());
}

/** Opens the conversation that the address names, so that a reload and the browser's buttons find it; else a new one. */
async function showAddressed(): Promise<void> {
  const id = location.hash.slice(1);
  if (id !== "" && (id === currentId.value || (await open(id)))) return;
  // An address that leads nowhere is not left for the browser's back button to find again.
  if (id !== "") history.replaceState(null, "", location.pathname + location.search);
  startTalk();
}

async function open(id: string): Promise<boolean> {
  if (!opened.value.has(id)) {
    const talk = await store.get(id);
    if (!talk) return false;
    remember(talk);
  }
  currentId.value = id;
  return true;
}

function remember(talk: Talk): void {
  opened.value = new Map(opened.value).set(talk.id, signal(talk));
}

/** Shows a new conversation, unless one is shown; it is kept from its first message on. */
export function startTalk(): void {
  if (current.peek()?.messages.length === 0) return;
  const talk = newTalk(defaultSystem.value, Date.now());
  batch(() => {
    remember(talk);
    currentId.value = talk.id;
  });
  if (location.hash !== "") history.pushState(null, "", location.pathname + location.search);
}

export function talkById(id: string): Talk | undefined {
  return opened.value.get(id)?.peek();
}

/** Changes a conversation on the page and in the browser. */
export function change(id: string, edit: (talk: Talk) => Talk): void {
  const held = opened.value.get(id);
  if (!held) return;
  held.value = edit(held.peek());
  keep(held.peek());
}

/** Changes one that may not be open yet, as the list does. */
export async function changeStored(id: string, edit: (talk: Talk) => Talk): Promise<void> {
  const held = opened.value.has(id) ? undefined : await store.get(id);
  if (held) keep(edit(held));
  else change(id, edit);
}

function keep(talk: Talk): void {
  if (talk.messages.length === 0) return;
  heads.value = sorted([headOf(talk), ...heads.peek().filter((head) => head.id !== talk.id)]);
  if (talk.id === currentId.peek() && location.hash !== `#${talk.id}`) history.replaceState(null, "", `#${talk.id}`);
  void write(talk);
}

async function write(talk: Talk): Promise<void> {
  try {
    await store.put(talk);
    storageProblem.value = null;
    tabs?.postMessage("changed");
  } catch (error) {
    storageProblem.value = error instanceof Error ? error.message : String(error);
  }
}

/** Takes conversations in, as they are; those with the same id are replaced. */
export async function takeIn(talks: Talk[]): Promise<void> {
  for (const talk of talks) {
    await write(talk);
    const held = opened.value.get(talk.id);
    if (held) held.value = talk;
  }
  await refreshHeads();
}

/** Removes a conversation and returns it, so that it can be taken in again. */
export async function removeTalk(id: string): Promise<Talk | undefined> {
  const talk = await storedTalk(id);
  if (currentId.value === id) startTalk();
  // First of all, so that an answer that is being written cannot bring it back.
  const rest = new Map(opened.value);
  rest.delete(id);
  opened.value = rest;
  await store.remove(id);
  heads.value = heads.value.filter((head) => head.id !== id);
  tabs?.postMessage("changed");
  return talk;
}

/** Every conversation that is kept, oldest first. */
export async function allTalks(): Promise<Talk[]> {
  const talks = await Promise.all(heads.value.map((head) => store.get(head.id)));
  return talks.filter((talk) => talk !== undefined).sort((a, b) => a.created - b.created);
}

export async function storedTalk(id: string): Promise<Talk | undefined> {
  return talkById(id) ?? (await store.get(id));
}

function sorted(list: TalkHead[]): TalkHead[] {
  return list.sort((a, b) => b.changed - a.changed);
}
