import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Pixels from the end within which the reader counts as being there. */
const NEAR = 48;

/** Keeps the end in sight while content grows, until the reader scrolls up, and again when he is back at the end. A new `leaf`
 * (a message was sent, another version chosen) goes to the end. */
export function useFollowing(leaf: string | null) {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLOListElement>(null);
  const follows = useRef(true);
  const [following, setFollowing] = useState(true);

  const toNewest = useCallback(() => {
    follows.current = true;
    setFollowing(true);
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  }, []);

  useEffect(() => {
    const element = scroller.current;
    const inner = content.current;
    if (!element || !inner) return;
    let height = element.scrollHeight;
    const onScroll = () => {
      // Content that shrinks or grows scrolls too; only the reader's own way says what he wants.
      if (element.scrollHeight !== height) return;
      follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
      setFollowing(follows.current);
    };
    const observer = new ResizeObserver(() => {
      height = element.scrollHeight;
      if (follows.current) element.scrollTop = height;
    });
    observer.observe(inner);
    observer.observe(element);
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", onScroll);
    };
  }, [leaf === null]);

  useLayoutEffect(toNewest, [leaf]);
  return { scroller, content, following, toNewest };
}
