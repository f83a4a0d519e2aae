// A block of markdown as harmless HTML. What a model wrote is hostile until DOMPurify has seen it.
import DOMPurify from "dompurify";
import { Parser, Renderer, type Tokens } from "marked";
import { escapeHtml, highlight } from "./highlight.ts";
import { type Block, firstWord } from "./blocks.ts";

/** HTML in the text stays text (`Vec<T>` in prose is no tag), but for these, and only without attributes. */
const HARMLESS_TAG = /^<\/?(?:br|sub|sup|kbd|b|i|u|s|em|strong|mark|small)\s*\/?>$/i;

class PageRenderer extends Renderer {
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return text.replace(/<[^<>]*>|[<>&]/g, (part) => (HARMLESS_TAG.test(part) ? part : escapeHtml(part)));
  }

  /** No picture is fetched from anywhere: its address is a link. */
  override image({ href, text }: Tokens.Image): string {
    return `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`;
  }

  override code({ text, lang }: Tokens.Code): string {
    return codeHtml(text, firstWord(lang));
  }

  override table(token: Tokens.Table): string {
    return `<div class="table" tabindex="0">${super.table(token)}</div>`;
  }

  override checkbox({ checked }: Tokens.Checkbox): string {
    return checked ? "☑ " : "☐ ";
  }
}

/** A code block: its language, a button that copies it (`copyCode` reacts), the code. */
function codeHtml(text: string, language: string): string {
  return `<div class="code">${codeHeadHtml(language)}<pre tabindex="0"><code>${highlight(text, language)}\n</code></pre></div>`;
}

function codeHeadHtml(language: string): string {
  const name = language === "" ? "text" : escapeHtml(language);
  return `<div class="code-head"><span>${name}</span><button type="button" class="code-copy">Copy</button></div>`;
}

const purifier = DOMPurify();
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

const ALLOWED = {
  ALLOWED_TAGS:
    "a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i kbd li mark ol p pre s small span strong sub sup table tbody td th thead tr u ul".split(" "),
  ALLOWED_ATTR: ["href", "class", "start", "align", "tabindex", "type", "title"],
};

const renderer = new PageRenderer();

export function renderBlock(block: Block): string {
  return purifier.sanitize(Parser.parse([block.token], { renderer, gfm: true }), ALLOWED);
}
