import { useState } from "preact/hooks";
import { IconButton } from "./Button.tsx";
import { chooseTheme, themeChoice, type ThemeChoice } from "./theme.ts";

const NEXT = { system: "light", light: "dark", dark: "system" } as const;
const LOOK = { system: "system", light: "sun", dark: "moon" } as const;
const NAME = { system: "as the system", light: "light", dark: "dark" } as const;

/** One button that goes round: as the system, light, dark. */
export function ThemeSwitch() {
  const [choice, setChoice] = useState<ThemeChoice>(themeChoice);
  const next = NEXT[choice];
  return (
    <IconButton
      icon={LOOK[choice]}
      label={`Colours: ${NAME[choice]}. Change to: ${NAME[next]}`}
      onClick={() => {
        chooseTheme(next);
        setChoice(next);
      }}
    />
  );
}
