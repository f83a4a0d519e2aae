import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../common/Button.tsx";
import { Icon } from "../../common/icons.tsx";
import { sayInstead } from "../actions.ts";
import type { Attachment, Message } from "../types.ts";
import { focusPrompt } from "../ui.ts";
import { CopyButton } from "./CopyButton.tsx";
import { Versions } from "./Versions.tsx";
import { fitHeight } from "./height.ts";

interface QuestionProps {
  talkId: string;
  message: Message;
  versions: string[];
  index: number;
}

/** What the reader said. */
export const Question = memo(({ talkId, message, versions, index }: QuestionProps) => {
  const [editing, setEditing] = useState(false);
  return (
    <li class="message question" aria-label="You">
      {message.attachments?.map((file, at) => <AttachedFile key={at} file={file} />)}
      {editing ? (
        <Editor talkId={talkId} message={message} onDone={() => setEditing(false)} />
      ) : (
        <>
          {message.content !== "" && <div class="question-text">{message.content}</div>}
          <div class="message-actions">
            <Versions talkId={talkId} versions={versions} index={index} />
            <IconButton icon="edit" look="quiet small edit-question" label="Edit this message" onClick={() => setEditing(true)} />
            <CopyButton text={message.content} label="Copy this message" />
          </div>
        </>
      )}
    </li>
  );
});

function AttachedFile({ file }: { file: Attachment }) {
  return (
    <details class="attached-file">
      <summary>
        <Icon name="file" />
        <span>{file.name}</span>
      </summary>
      <pre tabIndex={0}>{file.text}</pre>
    </details>
  );
}

function Editor({ talkId, message, onDone }: { talkId: string; message: Message; onDone: () => void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    fitHeight(element);
    element.focus();
    element.setSelectionRange(element.value.length, element.value.length);
  }, []);
  const send = () => {
    const text = area.current?.value.trim() ?? "";
    if (text === "" && !message.attachments?.length) return;
    onDone();
    sayInstead(talkId, message, text);
    focusPrompt();
  };
  return (
    <div class="question-editor">
      <textarea
        ref={area}
        class="input"
        aria-label="Edit your message"
        defaultValue={message.content}
        onInput={(event) => fitHeight(event.currentTarget)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          } else if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
        }}
      />
      <div class="question-editor-foot">
        <Button look="quiet small" onClick={onDone}>
          Cancel
        </Button>
        <Button look="primary small" onClick={send}>
          Send
        </Button>
      </div>
    </div>
  );
}
