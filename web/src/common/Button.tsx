import type { ComponentChildren, ButtonHTMLAttributes } from "preact";
import { Icon, type IconName } from "./icons.tsx";

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "label"> {
  icon: IconName;
  /** What a screen reader says and a pointer shows. */
  label: string;
  look?: string;
}

/** A button that shows a drawing only. */
export function IconButton({ icon, label, look = "quiet", ...rest }: IconButtonProps) {
  return (
    <button type="button" class={`button icon ${look}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon?: IconName;
  look?: string;
  children: ComponentChildren;
}

export function Button({ icon, look = "", children, ...rest }: ButtonProps) {
  return (
    <button type="button" class={`button ${look}`} {...rest}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </button>
  );
}
