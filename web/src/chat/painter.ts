// Draws what changes quickly, once a frame at most, and less often where drawing takes long: the model may run on the same
// processor, and has more use for it.

/** Drawing takes one part in this many of the time, at most. */
const SHARE = 5;

export class Painter {
  readonly #draw: () => void;
  #wanted = false;
  #over = false;
  /** When the next drawing may begin. */
  #earliest = 0;

  constructor(draw: () => void) {
    this.#draw = draw;
  }

  /** Something changed. */
  want(): void {
    if (this.#wanted) return;
    this.#wanted = true;
    const wait = this.#earliest - performance.now();
    if (wait > 0) setTimeout(() => requestAnimationFrame(() => this.#frame()), wait);
    else requestAnimationFrame(() => this.#frame());
  }

  /** Nothing is drawn any more. */
  end(): void {
    this.#over = true;
  }

  #frame(): void {
    this.#wanted = false;
    if (this.#over) return;
    const began = performance.now();
    this.#draw();
    // Rendering follows at the end of this frame, so that a timer comes after it.
    setTimeout(() => {
      const now = performance.now();
      this.#earliest = now + (SHARE - 1) * (now - began);
    });
  }
}
