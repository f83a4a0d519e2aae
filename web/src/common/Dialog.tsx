// A modal dialog of the browser: it keeps the focus inside, closes with Esc, and gives the focus back.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { IconButton } from "./Button.tsx";
import "./dialog.css";

interface DialogProps {
  title: string;
  /** `side` slides in from the right and is as high as the page; `center` is as large as its content. */
  place?: "center" | "side";
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, place = "center", onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const gone = useRef(false);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      // The browser tells of it later, when another dialog may be open.
      gone.current = true;
      dialog?.close();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog ${place}`}
      aria-labelledby={heading}
      onClose={() => {
        if (!gone.current) onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-frame">
        <header class="dialog-head">
          <h2 id={heading}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
      </div>
    </dialog>
  );
}
