// Conversations in the browser: IndexedDB, heads apart from the conversations so that the list is quick. Where the browser
// forbids it (some private windows), they last as long as the page does, and `keeps` says so.
import { headOf, type Talk, type TalkHead } from "./types.ts";

const HEADS = "heads";
const TALKS = "talks";

export interface TalkStore {
  /** Whether a reload finds what was put. */
  readonly keeps: boolean;
  heads(): Promise<TalkHead[]>;
  get(id: string): Promise<Talk | undefined>;
  put(talk: Talk): Promise<void>;
  remove(id: string): Promise<void>;
}

export async function openStore(): Promise<TalkStore> {
  try {
    return new BrowserStore(await openDatabase());
  } catch {
    return new MemoryStore();
  }
}

function openDatabase(): Promise<IDBDatabase> {
  const opening = indexedDB.open("minfer-chat", 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore(HEADS, { keyPath: "id" });
    opening.result.createObjectStore(TALKS, { keyPath: "id" });
  };
  return done(opening);
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}

class BrowserStore implements TalkStore {
  readonly keeps = true;
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
    // Another tab with a newer page may want to change the layout.
    database.onversionchange = () => database.close();
  }

  heads(): Promise<TalkHead[]> {
    return done<TalkHead[]>(this.#database.transaction(HEADS).objectStore(HEADS).getAll());
  }

  get(id: string): Promise<Talk | undefined> {
    return done<Talk | undefined>(this.#database.transaction(TALKS).objectStore(TALKS).get(id));
  }

  put(talk: Talk): Promise<void> {
    return this.#write((heads, talks) => {
      heads.put(headOf(talk));
      talks.put(talk);
    });
  }

  remove(id: string): Promise<void> {
    return this.#write((heads, talks) => {
      heads.delete(id);
      talks.delete(id);
    });
  }

  #write(change: (heads: IDBObjectStore, talks: IDBObjectStore) => void): Promise<void> {
    const transaction = this.#database.transaction([HEADS, TALKS], "readwrite");
    change(transaction.objectStore(HEADS), transaction.objectStore(TALKS));
    // Without waiting for an answer, so that a page that is left at this moment loses nothing.
    transaction.commit();
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("the browser's storage failed"));
    });
  }
}

export class MemoryStore implements TalkStore {
  readonly keeps = false;
  readonly #talks = new Map<string, Talk>();

  heads(): Promise<TalkHead[]> {
    return Promise.resolve([...this.#talks.values()].map(headOf));
  }

  get(id: string): Promise<Talk | undefined> {
    return Promise.resolve(this.#talks.get(id));
  }

  put(talk: Talk): Promise<void> {
    this.#talks.set(talk.id, talk);
    return Promise.resolve();
  }

  remove(id: string): Promise<void> {
    this.#talks.delete(id);
    return Promise.resolve();
  }
}
