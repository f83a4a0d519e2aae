import { useEffect } from "preact/hooks";
import { Button, IconButton } from "../../common/Button.tsx";
import { note } from "../ui.ts";

const SHOWN_MS = 10_000;

/** Tells what happened, for a while, and offers to undo it. */
export function NoteBar() {
  const shown = note.value;
  useEffect(() => {
    if (!shown) return;
    const timer = setTimeout(() => (note.value = null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [shown]);
  const undo = shown?.undo;
  return (
    <div class="note-place" role="status">
      {shown && (
        <div class="note">
          <span>{shown.text}</span>
          {undo && (
            <Button
              look="small"
              onClick={() => {
                undo();
                note.value = null;
              }}
            >
              Undo
            </Button>
          )}
          <IconButton icon="close" look="quiet small" label="Dismiss" onClick={() => (note.value = null)} />
        </div>
      )}
    </div>
  );
}
