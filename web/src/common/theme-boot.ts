// Runs before the first paint, so that no page flashes in the other theme.
import { followTheme } from "./theme.ts";

followTheme();
