import { useEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../../common/Button.tsx";
import { Icon } from "../../common/icons.tsx";
import { say } from "../actions.ts";
import { readFiles } from "../attach.ts";
import { lives, stop } from "../live.ts";
import { facts } from "../server.ts";
import { path } from "../tree.ts";
import type { Attachment, Talk } from "../types.ts";
import { note } from "../ui.ts";
import { fitHeight } from "./height.ts";
import "./composer.css";

const drafts = new Map<string, { text: string; attachments: Attachment[] }>();

/** Where the next message is written. What was begun in another conversation is still there when it is shown again. */
export function Composer({ talk }: { talk: Talk }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(drafts.get(talk.id)?.text ?? "");
  const [attachments, setAttachments] = useState<Attachment[]>(drafts.get(talk.id)?.attachments ?? []);
  const busy = lives.value.has(talk.id);
  const sendable = text.trim() !== "" || attachments.length > 0;

  useEffect(() => {
    drafts.set(talk.id, { text, attachments });
    if (area.current) fitHeight(area.current);
  }, [text, attachments]);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, []);

  const attach = async (files: Iterable<File>) => {
    const { attachments: read, refused } = await readFiles(files);
    setAttachments((before) => [...before, ...read]);
    if (refused.length > 0) note.value = { text: `Not attached: ${refused.join("; ")}` };
  };
  const send = () => {
    if (!sendable || busy) return;
    say(talk.id, text.trim(), attachments);
    setText("");
    setAttachments([]);
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach(event.dataTransfer?.files ?? []);
      }}
    >
      <div class="composer-box">
        {attachments.length > 0 && (
          <ul class="composer-files" aria-label="Attached files">
            {attachments.map((file, at) => (
              <li key={at}>
                <Icon name="file" />
                <span>{file.name}</span>
                <IconButton
                  icon="close"
                  look="quiet small"
                  label={`Remove ${file.name}`}
                  onClick={() => setAttachments(attachments.filter((other) => other !== file))}
                />
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={area}
          id="prompt"
          rows={1}
          aria-label="Your message"
          placeholder="Write a message"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              send();
            } else if (event.key === "ArrowUp" && text === "") {
              const edits = document.querySelectorAll<HTMLButtonElement>(".edit-question");
              edits[edits.length - 1]?.click();
            }
          }}
          onPaste={(event) => {
            const files = event.clipboardData?.files;
            if (!files || files.length === 0) return;
            event.preventDefault();
            void attach([...files]);
          }}
        />
        <div class="composer-foot">
          <AttachButton onFiles={attach} />
          <ContextUse talk={talk} />
          {busy ? (
            <IconButton key="stop" icon="stop" look="primary round" label="Stop (Esc)" onClick={() => stop(talk.id)} />
          ) : (
            <IconButton key="send" type="submit" icon="send" look="primary round" label="Send (Enter)" disabled={!sendable} />
          )}
        </div>
      </div>
    </form>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: Iterable<File>) => Promise<void> }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton icon="attach" label="Attach text files" onClick={() => input.current?.click()} />
      <input
        ref={input}
        id="attach"
        type="file"
        multiple
        hidden
        aria-label="Text files"
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          void onFiles(files);
        }}
      />
    </>
  );
}

/** How much of the context the conversation took, after its last answer. */
function ContextUse({ talk }: { talk: Talk }) {
  const nCtx = facts.value?.nCtx;
  const stats = path(talk).findLast((message) => message.stats?.promptTokens !== undefined)?.stats;
  if (!nCtx || stats?.promptTokens === undefined) return <span class="context-use" />;
  const used = stats.promptTokens + (stats.tokens ?? 0);
  const percent = Math.min(100, Math.round((100 * used) / nCtx));
  return (
    <span class={`context-use ${percent >= 85 ? "full" : ""}`} title={`${used} of ${nCtx} tokens of the context`}>
      {percent}% of the context
    </span>
  );
}
