// Fingers, mouse and wheel on the drawing: one moves it, two zoom, the wheel zooms where it points.
import { viewport } from "./state.ts";

const WHEEL = 0.0016;
/** A press that moves further than this is no click. */
const SLOP = 4;

export function pointers(element: HTMLElement): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent) => {
    const frame = element.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  const press = (event: PointerEvent) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    if (down.size === 0) moved = 0;
    down.set(event.pointerId, at(event));
  };
  const move = (event: PointerEvent) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (moved > SLOP && !element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
    const [other] = [...down].filter(([id]) => id !== event.pointerId);
    if (other) {
      const [, fixed] = other;
      const ratio = distance(now, fixed) / Math.max(1, distance(before, fixed));
      viewport.zoomAt(fixed.x, fixed.y, ratio);
    } else if (moved > SLOP) {
      viewport.panBy(now.x - before.x, now.y - before.y);
    }
    down.set(event.pointerId, now);
  };
  const lift = (event: PointerEvent) => down.delete(event.pointerId);
  const click = (event: MouseEvent) => {
    if (moved > SLOP) event.stopPropagation();
    moved = 0;
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.shiftKey) return viewport.panBy(-(event.deltaX + event.deltaY) * lines, 0);
    const { x, y } = at(event);
    const strength = event.ctrlKey ? 6 : 1;
    viewport.zoomAt(x, y, Math.exp(-event.deltaY * lines * WHEEL * strength));
  };
  element.addEventListener("pointerdown", press);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", lift);
  element.addEventListener("pointercancel", lift);
  element.addEventListener("click", click, { capture: true });
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", press);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", lift);
    element.removeEventListener("pointercancel", lift);
    element.removeEventListener("click", click, { capture: true });
    element.removeEventListener("wheel", wheel);
  };
}

function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
