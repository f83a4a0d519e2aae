// Markdown on the page: finished text, or text that is being written.
import { memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type Block, blocksOf, GrowingBlocks, type OpenCode } from "./blocks.ts";
import { escapeHtml, highlight } from "./highlight.ts";
import { renderBlock } from "./render.ts";
import "./prose.css";

interface MarkdownProps {
  text: string;
  /** Whether more is to come. While it is, `text` must only grow. */
  growing?: boolean;
}

export function Markdown({ text, growing = false }: MarkdownProps) {
  const state = useRef<GrowingBlocks | undefined>(undefined);
  const parts = useMemo(() => {
    if (!growing) return { blocks: blocksOf(text), open: undefined };
    state.current ??= new GrowingBlocks();
    state.current.update(text);
    return { blocks: state.current.blocks, open: state.current.open };
  }, [text, growing]);
  return (
    <div class="prose" data-growing={growing || undefined}>
      {parts.blocks.map((block, index) => (
        <BlockHtml key={index} block={block} />
      ))}
      {parts.open && <GrowingCode key={parts.blocks.length} {...parts.open} />}
    </div>
  );
}

/** Blocks are compared by their source, so that the last lexing of a finished answer changes nothing on the page. */
const BlockHtml = memo(
  ({ block }: { block: Block }) => <div class="block" dangerouslySetInnerHTML={{ __html: renderBlock(block) }} />,
  (before, after) => before.block.raw === after.block.raw && before.block.token.type === after.block.token.type,
);

/** Code that is being written: new text is appended, and all of it coloured again whenever it has grown by an eighth. */
function GrowingCode({ language, text }: OpenCode) {
  const code = useRef<HTMLElement>(null);
  const coloured = useRef(0);
  const shown = useRef(0);
  useLayoutEffect(() => {
    const element = code.current;
    if (!element) return;
    const complete = text.lastIndexOf("\n") + 1;
    if (complete > coloured.current * 1.125) {
      element.innerHTML = highlight(text.slice(0, complete), language) + escapeHtml(text.slice(complete));
      coloured.current = complete;
    } else {
      element.append(text.slice(shown.current));
    }
    shown.current = text.length;
  }, [text, language]);
  return (
    <div class="block">
      <div class="code">
        <div class="code-head">
          <span>{language || "text"}</span>
        </div>
        <pre tabIndex={0}>
          <code ref={code} />
        </pre>
      </div>
    </div>
  );
}
