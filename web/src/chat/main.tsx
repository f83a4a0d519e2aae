import { render } from "preact";
import "../common/base.css";
import { Chat } from "./parts/Chat.tsx";
import { meetServer } from "./server.ts";
import { openConversations } from "./store.ts";

const root = document.getElementById("page");
if (root) {
  void meetServer();
  void openConversations().then(() => render(<Chat />, root));
}
