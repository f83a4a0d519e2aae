import { IconButton } from "../../common/Button.tsx";
import { ThemeSwitch } from "../../common/ThemeSwitch.tsx";
import { facts } from "../server.ts";
import { startTalk } from "../store.ts";
import type { Talk } from "../types.ts";
import { dialog, focusPrompt, listOpen, toggleList } from "../ui.ts";

export function Head({ talk }: { talk: Talk }) {
  return (
    <header class="head">
      <IconButton
        icon="list"
        label={listOpen.value ? "Hide the conversations" : "Show the conversations"}
        aria-expanded={listOpen.value}
        aria-controls="list"
        onClick={() => toggleList()}
      />
      <div class="head-title">
        <h1>{talk.messages.length > 0 ? talk.title : "New conversation"}</h1>
        {facts.value && <p title="The model that answers">{facts.value.model}</p>}
      </div>
      {!listOpen.value && talk.messages.length > 0 && (
        <IconButton
          icon="plus"
          label="New conversation"
          onClick={() => {
            startTalk();
            focusPrompt();
          }}
        />
      )}
      <ThemeSwitch />
      <IconButton icon="settings" label="Settings" aria-haspopup="dialog" onClick={() => (dialog.value = "settings")} />
    </header>
  );
}
