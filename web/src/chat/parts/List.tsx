// The conversations of this browser.
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../common/Button.tsx";
import { exportTalks, importFile } from "../files.ts";
import { stop } from "../live.ts";
import { allTalks, changeStored, current, heads, keeps, removeTalk, startTalk, storageProblem, storedTalk, takeIn } from "../store.ts";
import type { TalkHead } from "../types.ts";
import { dialog, focusPrompt, isNarrow, leaveList, listOpen, note, toggleList } from "../ui.ts";
import "./list.css";

const DAY_MS = 86_400_000;

export function List() {
  const over = isNarrow.value && listOpen.value;
  const first = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (over) first.current?.querySelector("button")?.focus();
  }, [over]);
  if (!listOpen.value) return null;
  return (
    <>
      {over && <div class="list-shade" onClick={() => toggleList(false)} />}
      <nav id="list" class="list" aria-label="Conversations">
        <div class="list-head" ref={first}>
          <Button icon="plus" look="list-new" onClick={begin}>
            New conversation
          </Button>
          {over && <IconButton icon="close" label="Hide the conversations" onClick={() => toggleList(false)} />}
        </div>
        <div class="list-items">
          {heads.value.length === 0 && <p class="list-empty">Conversations are kept here, in this browser only.</p>}
          {groups(heads.value).map(([name, group]) => (
            <section key={name} aria-label={name}>
              <h2>{name}</h2>
              <ul>
                {group.map((head) => (
                  <Item key={head.id} head={head} />
                ))}
              </ul>
            </section>
          ))}
        </div>
        <ListFoot />
      </nav>
    </>
  );
}

function begin() {
  startTalk();
  leaveList();
  focusPrompt();
}

function groups(all: TalkHead[]): [string, TalkHead[]][] {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const named = new Map<string, TalkHead[]>([["Today", []], ["Last seven days", []], ["Earlier", []]]);
  for (const head of all) {
    const name = head.changed >= midnight ? "Today" : head.changed >= midnight - 6 * DAY_MS ? "Last seven days" : "Earlier";
    named.get(name)?.push(head);
  }
  return [...named].filter(([, group]) => group.length > 0);
}

function Item({ head }: { head: TalkHead }) {
  const [renaming, setRenaming] = useState(false);
  const shown = current.value?.id === head.id;
  if (renaming) return <Rename head={head} onDone={() => setRenaming(false)} />;
  return (
    <li class="list-item">
      <a href={`#${head.id}`} aria-current={shown ? "page" : undefined} onClick={leaveList} title={head.title}>
        {head.title}
      </a>
      <div class="list-actions">
        <IconButton icon="edit" look="quiet small" label={`Rename: ${head.title}`} onClick={() => setRenaming(true)} />
        <IconButton icon="export" look="quiet small" label={`Export: ${head.title}`} onClick={() => void exportOne(head.id)} />
        <IconButton icon="trash" look="quiet small" label={`Delete: ${head.title}`} onClick={() => void remove(head.id)} />
      </div>
    </li>
  );
}

function Rename({ head, onDone }: { head: TalkHead; onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  const finish = (title: string) => {
    onDone();
    if (title.trim() !== "" && title !== head.title) {
      void changeStored(head.id, (talk) => ({ ...talk, title: title.trim(), named: true }));
    }
  };
  return (
    <li class="list-item">
      <input
        ref={input}
        class="input"
        aria-label="New title"
        defaultValue={head.title}
        maxLength={200}
        onBlur={(event) => finish(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") finish(event.currentTarget.value);
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
        }}
      />
    </li>
  );
}

async function exportOne(id: string) {
  const talk = await storedTalk(id);
  if (talk) exportTalks([talk]);
}

async function remove(id: string) {
  stop(id);
  const talk = await removeTalk(id);
  if (talk) note.value = { text: `Deleted: ${talk.title}`, undo: () => void takeIn([talk]) };
}

function ListFoot() {
  const file = useRef<HTMLInputElement>(null);
  return (
    <div class="list-foot">
      {!keeps.value && <p class="list-empty">This browser keeps nothing: conversations end with the page.</p>}
      {storageProblem.value && <p class="list-empty problem">Not kept: {storageProblem.value}. Export what matters.</p>}
      <div class="list-tools">
        <IconButton icon="import" label="Import conversations" onClick={() => file.current?.click()} />
        <IconButton
          icon="export"
          label="Export all conversations"
          disabled={heads.value.length === 0}
          onClick={() => void allTalks().then(exportTalks)}
        />
        <IconButton icon="keyboard" label="Keyboard shortcuts" aria-haspopup="dialog" onClick={() => (dialog.value = "shortcuts")} />
      </div>
      <input
        ref={file}
        type="file"
        accept="application/json,.json"
        hidden
        aria-label="File of conversations"
        onChange={(event) => {
          const chosen = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (chosen) void importFile(chosen);
        }}
      />
    </div>
  );
}
