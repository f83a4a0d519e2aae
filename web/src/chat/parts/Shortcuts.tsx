import { Dialog } from "../../common/Dialog.tsx";
import { lives, stop } from "../live.ts";
import { current, startTalk } from "../store.ts";
import { dialog, focusPrompt, isNarrow, leaveList, listOpen, toggleList } from "../ui.ts";

interface Shortcut {
  /** As `KeyboardEvent.code` says it; pressed with Alt. */
  code: string;
  key: string;
  what: string;
  act: () => void;
}

const SHORTCUTS: readonly Shortcut[] = [
  { code: "KeyN", key: "N", what: "New conversation", act: begin },
  { code: "KeyL", key: "L", what: "Show or hide the conversations", act: () => toggleList() },
  { code: "KeyI", key: "I", what: "Go to the message field", act: focusPrompt },
  { code: "KeyR", key: "R", what: "Write another last answer", act: () => pressLast(".answer .regenerate") },
  { code: "KeyE", key: "E", what: "Edit the last message", act: () => pressLast(".edit-question") },
  { code: "KeyS", key: "S", what: "Settings", act: () => toggleDialog("settings") },
  { code: "KeyK", key: "K", what: "This list", act: () => toggleDialog("shortcuts") },
];

const OTHERS = [
  ["Enter", "Send"],
  ["Shift + Enter", "New line"],
  ["↑ in an empty field", "Edit the last message"],
  ["Esc", "Stop the answer; close what is open"],
] as const;

export function Shortcuts() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (dialog.value = null)}>
      <dl class="shortcuts">
        {OTHERS.map(([keys, what]) => (
          <Row key={keys} keys={keys} what={what} />
        ))}
        {SHORTCUTS.map(({ key, what }) => (
          <Row key={key} keys={`Alt + ${key}`} what={what} />
        ))}
      </dl>
    </Dialog>
  );
}

function Row({ keys, what }: { keys: string; what: string }) {
  return (
    <div>
      <dt>
        <kbd>{keys}</kbd>
      </dt>
      <dd>{what}</dd>
    </div>
  );
}

/** Listens for as long as the page lasts; returns how to end it. */
export function listenToShortcuts(): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape" && !event.defaultPrevented && dialog.peek() === null) escape();
    if (!event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const shortcut = SHORTCUTS.find(({ code }) => code === event.code);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.act();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

/** The list if it lies over the conversation, else the answer. */
function escape() {
  const talk = current.peek();
  if (isNarrow.peek() && listOpen.peek()) toggleList(false);
  else if (talk && lives.peek().has(talk.id)) stop(talk.id);
}

function begin() {
  startTalk();
  leaveList();
  focusPrompt();
}

function toggleDialog(which: "settings" | "shortcuts") {
  dialog.value = dialog.peek() === which ? null : which;
}

function pressLast(selector: string) {
  const all = document.querySelectorAll<HTMLButtonElement>(selector);
  all[all.length - 1]?.click();
}
