// Line drawings on a grid of 24. Decoration only: whatever bears one has a label of its own.
const DRAWINGS = {
  attach: "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.5-8.5a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.8",
  back: "M14.5 6l-6 6 6 6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10.5v10.5H9zM15 9V4.5H4.5V15H9",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "M4 20h4L19.5 8.5a2.1 2.1 0 0 0-3-3L5 17v3M14.5 7.5l3 3",
  export: "M12 15V4M7.5 8.5L12 4l4.5 4.5M5 14v5h14v-5",
  file: "M6.5 3.5h7.5l4 4v13H6.500zM13.5 3.500v4.500h4.500M9.5 13h5M9.5 16.500h5",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  forward: "M9.5 6l6 6-6 6",
  import: "M12 4v11M7.5 10.500L12 15l4.5-4.500M5 14v5h14v-5",
  keyboard: "M3 6.500h18v11H3zM7 10h.01M11 10h.01M15 10h.01M17.5 10h.01M8 14h8",
  list: "M4 5h16v14H4zM9.5 5v14",
  minus: "M5 12h14",
  moon: "M20 14.500A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.500z",
  play: "M8 5.5l11 6.5-11 6.5z",
  plus: "M12 5v14M5 12h14",
  redo: "M19.5 8.500A8 8 0 1 0 20 13M20 4v5h-5",
  send: "M12 19V5M6 11l6-6 6 6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.800v4.400M9 14.800v4.4",
  stop: "M7.5 7.500h9v9h-9z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.500v2M12 19.500v2M2.5 12h2M19.5 12h2M5.3 5.300l1.4 1.400M17.3 17.300l1.4 1.400M5.3 18.700l1.4-1.400M17.3 6.700l1.4-1.4",
  system: "M3.5 5h17v11h-17zM9 20h6M12 16v4",
  tool: "M14.5 6.500a4 4 0 0 1 5-1.300l-2.7 2.7.4 1.9 1.9.4 2.7-2.700a4.5 4.5 0 0 1-6 5.500L8.5 20.300a2 2 0 0 1-2.9-2.900l7.4-7.300a4.5 4.5 0 0 1 1.5-3.600z",
  trash: "M4.5 7h15M9.5 7V4.500h5V7M6.5 7l.8 12.500h9.400L17.5 7M10.5 11v5M13.5 11v5",
} as const;

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon-drawing" viewBox="0 0 24 24" aria-hidden="true">
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
