import { useEffect } from "preact/hooks";
import { announcement } from "../live.ts";
import { current } from "../store.ts";
import { dialog } from "../ui.ts";
import { Composer } from "./Composer.tsx";
import { Conversation } from "./Conversation.tsx";
import { Head } from "./Head.tsx";
import { List } from "./List.tsx";
import { NoteBar } from "./NoteBar.tsx";
import { Settings } from "./Settings.tsx";
import { listenToShortcuts, Shortcuts } from "./Shortcuts.tsx";
import "./layout.css";

export function Chat() {
  useEffect(listenToShortcuts, []);
  const talk = current.value;
  useEffect(() => {
    document.title = talk && talk.messages.length > 0 ? `${talk.title} · minfer` : "minfer";
  }, [talk?.title, talk?.messages.length]);
  if (!talk) return null;
  return (
    <div class="app">
      <List />
      <main class="main">
        <Head talk={talk} />
        <Conversation key={talk.id} talk={talk} />
        <Composer key={`composer-${talk.id}`} talk={talk} />
      </main>
      <NoteBar />
      {dialog.value === "settings" && <Settings talk={talk} />}
      {dialog.value === "shortcuts" && <Shortcuts />}
      <div class="hidden-label" role="status">
        {announcement}
      </div>
    </div>
  );
}
