// Which part of the drawing is seen, and how large. Several drawings can share one, and then move together.

export interface Size {
  width: number;
  height: number;
}

const LEAST = 0.02;
const MOST = 2.5;
const FLIGHT_MS = 260;
/** What stays free around a drawing that is shown whole; below it are buttons. */
const EDGE = 16;
const FOOT = 64;

/** After this long without a move the hand rests. */
const REST_MS = 140;

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** What of a drawing is seen: a place p of it is at `p * scale + (x, y)` in the window. */
export type View = Readonly<Pick<Viewport, "x" | "y" | "scale" | "size" | "isMoving">>;

export class Viewport {
  x = 0;
  y = 0;
  scale = 1;
  /** Of the window; the same for all drawings that share it. */
  size: Size = { width: 800, height: 600 };
  /** Whether a drawing has been put into the window. */
  isPlaced = false;
  /** Whether it has just moved: what is drawn now is seen for a frame. Seers are called once more when it rests. */
  isMoving = false;
  #rest = 0;
  #seers = new Set<() => void>();
  #flight = 0;
  #frame = 0;

  /** Calls `seer` at most once a frame after a change; gives what ends it. */
  watch(seer: () => void): () => void {
    this.#seers.add(seer);
    seer();
    return () => this.#seers.delete(seer);
  }

  /** The window has another size: what was in its middle stays there. A first drawing is shown from its top. */
  resize(size: Size, drawing: Size): void {
    const before = this.size;
    this.size = size;
    if (!this.isPlaced) this.top(drawing, false);
    else if (size.width !== before.width) this.panBy((size.width - before.width) / 2, 0);
    this.isPlaced = true;
  }

  panBy(dx: number, dy: number): void {
    this.#land();
    this.#set(this.x + dx, this.y + dy, this.scale);
  }

  /** Zooms by a factor about a point of the window. */
  zoomAt(px: number, py: number, factor: number): void {
    this.#land();
    const scale = clampScale(this.scale * factor);
    const ratio = scale / this.scale;
    this.#set(px - (px - this.x) * ratio, py - (py - this.y) * ratio, scale);
  }

  zoomBy(factor: number): void {
    const { width, height } = this.size;
    const scale = clampScale(this.scale * factor);
    const ratio = scale / this.scale;
    this.#fly(width / 2 - (width / 2 - this.x) * ratio, height / 2 - (height / 2 - this.y) * ratio, scale);
  }

  /** Shows all of a drawing that is centred on x = 0 and begins at y = 0. */
  fit(drawing: Size, animate = true): void {
    const { width, height } = this.size;
    const room = { width: width - 2 * EDGE, height: height - EDGE - FOOT };
    const scale = Math.max(LEAST, Math.min(1, room.width / Math.max(drawing.width, 1), room.height / Math.max(drawing.height, 1)));
    const y = EDGE + Math.max(0, (room.height - drawing.height * scale) / 2);
    if (animate) this.#fly(width / 2, y, scale);
    else this.#set(width / 2, y, scale);
  }

  /** Shows the top at a size that can be read. */
  top(drawing: Size, animate = true): void {
    const { width } = this.size;
    const scale = Math.max(0.35, Math.min(1, (width - 32) / Math.max(drawing.width, 1)));
    if (animate) this.#fly(width / 2, 16, scale);
    else this.#set(width / 2, 16, scale);
  }

  /** Moves so that a point of the drawing is in the middle, at a size that can be read. */
  centre(x: number, y: number): void {
    const { width, height } = this.size;
    const scale = Math.max(this.scale, 0.8);
    this.#fly(width / 2 - x * scale, height / 2 - y * scale, scale);
  }

  /** Moves no more than is needed for a box of the drawing to be seen. */
  reveal(x: number, y: number, width: number, height: number): void {
    if (this.scale < 0.5) return this.centre(x, y);
    const margin = 24;
    const left = this.x + (x - width / 2) * this.scale;
    const top = this.y + (y - height / 2) * this.scale;
    const dx = inside(left, left + width * this.scale, margin, this.size.width - margin);
    const dy = inside(top, top + height * this.scale, margin, this.size.height - margin);
    if (dx !== 0 || dy !== 0) this.#fly(this.x + dx, this.y + dy, this.scale);
  }

  #fly(x: number, y: number, scale: number): void {
    this.#land();
    if (still.matches) return this.#set(x, y, scale);
    const from = { x: this.x, y: this.y, scale: this.scale };
    const start = performance.now();
    const step = (now: number) => {
      const t = Math.min(1, (now - start) / FLIGHT_MS);
      const s = t * t * (3 - 2 * t);
      this.#set(from.x + (x - from.x) * s, from.y + (y - from.y) * s, from.scale + (scale - from.scale) * s);
      this.#flight = t < 1 ? requestAnimationFrame(step) : 0;
    };
    this.#flight = requestAnimationFrame(step);
  }

  #land(): void {
    cancelAnimationFrame(this.#flight);
    this.#flight = 0;
  }

  #set(x: number, y: number, scale: number): void {
    this.x = x;
    this.y = y;
    this.scale = scale;
    this.isMoving = true;
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => {
      this.isMoving = false;
      this.#tell();
    }, REST_MS);
    this.#tell();
  }

  #tell(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      for (const seer of this.#seers) seer();
    });
  }
}

function clampScale(scale: number): number {
  return Math.min(MOST, Math.max(LEAST, scale));
}

/** How far to move for `from..to` to lie within `least..most`. */
function inside(from: number, to: number, least: number, most: number): number {
  if (from < least) return least - from;
  return to > most ? Math.max(most - to, least - from) : 0;
}
