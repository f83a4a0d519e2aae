import { render } from "preact";
import { ThemeSwitch } from "../common/ThemeSwitch.tsx";
import "../common/base.css";

function Page() {
  return (
    <main>
      <ThemeSwitch />
    </main>
  );
}

const root = document.getElementById("page");
if (root) render(<Page />, root);
