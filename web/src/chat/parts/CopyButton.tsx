import { useState } from "preact/hooks";
import { IconButton } from "../../common/Button.tsx";
import { copyText } from "../../common/clipboard.ts";

const SHOWN_MS = 1600;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <IconButton
      icon={copied ? "check" : "copy"}
      look="quiet small"
      label={copied ? "Copied" : label}
      onClick={() => {
        void copyText(text).then((done) => {
          setCopied(done);
          setTimeout(() => setCopied(false), SHOWN_MS);
        });
      }}
    />
  );
}
