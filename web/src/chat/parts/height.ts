/** Makes a text field as high as its text; the style sheet limits it. */
export function fitHeight(area: HTMLTextAreaElement): void {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
}
