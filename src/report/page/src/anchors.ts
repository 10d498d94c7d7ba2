// Anchors: which part of the page shows a path of the profile, so that findings can link to their evidence.
//
// A place is a path into the JSON with an optional key: "functions", "time.mean", "files:/data/x.h5", "epochs:3".

type Show = (key: string) => HTMLElement | null;
interface Anchor { element: HTMLElement; show: Show | undefined }

const anchors = new Map<string, Anchor>();

// `show` scrolls to the row of a key and returns it, or null if there is none.
export function register(path: string, element: HTMLElement, show?: Show): void {
  anchors.set(path, { element, show });
}

// The longest registered path that contains `where`: "time.mean.wait_share" is shown by "time.mean", or else by "time".
function find(path: string): Anchor | undefined {
  for (let rest = path; rest; rest = rest.slice(0, Math.max(0, rest.lastIndexOf(".")))) {
    const anchor = anchors.get(rest);
    if (anchor) return anchor;
  }
  return undefined;
}

export function isKnown(where: string): boolean {
  return find(where.split(":", 1)[0]) !== undefined;
}

export function follow(where: string): void {
  const colon = where.indexOf(":");
  const anchor = find(colon < 0 ? where : where.slice(0, colon));
  if (!anchor) return;
  const row = colon < 0 ? null : (anchor.show?.(where.slice(colon + 1)) ?? null);
  const target = row ?? anchor.element;
  target.scrollIntoView({ block: row ? "center" : "start" });
  highlight(target);
}

function highlight(target: HTMLElement): void {
  for (const old of document.querySelectorAll(".evidence-shown")) old.classList.remove("evidence-shown");
  void target.offsetWidth;  // restarts the animation
  target.classList.add("evidence-shown");
  if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
