import { IconButton } from "../../common/Button.tsx";
import { change } from "../store.ts";
import { showVersion } from "../tree.ts";

/** Goes through the versions of a message. */
export function Versions({ talkId, versions, index }: { talkId: string; versions: string[]; index: number }) {
  if (versions.length < 2) return null;
  const show = (at: number) => {
    const id = versions[at];
    if (id !== undefined) change(talkId, (talk) => showVersion(talk, id));
  };
  return (
    <span class="versions">
      <IconButton icon="back" look="quiet small" label="Version before" disabled={index === 0} onClick={() => show(index - 1)} />
      <span aria-label={`Version ${index + 1} of ${versions.length}`} role="img">
        {index + 1}/{versions.length}
      </span>
      <IconButton
        icon="forward"
        look="quiet small"
        label="Version after"
        disabled={index === versions.length - 1}
        onClick={() => show(index + 1)}
      />
    </span>
  );
}
