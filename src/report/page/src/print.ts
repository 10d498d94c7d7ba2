// Printing: on paper everything is in light colours and as wide as the paper, and nothing scrolls.
import { isDark, setTheme } from "./theme";
import { tables } from "./tables";

export function startPrinting(redraw: () => void): void {
  let wasDark = false;
  window.addEventListener("beforeprint", () => {
    wasDark = isDark();
    document.documentElement.classList.add("printing");
    if (wasDark) setTheme(false);
    for (const table of tables) table.setPrinting(true);
    redraw();
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    for (const table of tables) table.setPrinting(false);
    if (wasDark) setTheme(true);
    redraw();
  });
}
