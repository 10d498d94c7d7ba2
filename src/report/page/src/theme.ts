// Theme: light or dark, like the system until the reader chooses; and the colours for canvas drawings.

const KEY = "millrace-theme";
const listeners = new Set<() => void>();
const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");
let cache = new Map<string, string>();

// A page from file:// may have no storage; then the choice lasts as long as the page.
function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(theme: string): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // As above.
  }
}

export function isDark(): boolean {
  return document.documentElement.dataset["theme"] === "dark";
}

export function setTheme(dark: boolean): void {
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  cache = new Map();
  for (const listener of listeners) listener();
}

export function startTheme(): void {
  const choice = stored();
  setTheme(choice ? choice === "dark" : systemIsDark.matches);
  systemIsDark.addEventListener("change", (event) => {
    if (!stored()) setTheme(event.matches);
  });
}

export function toggleTheme(): void {
  setTheme(!isDark());
  store(isDark() ? "dark" : "light");
}

export function onTheme(listener: () => void): void {
  listeners.add(listener);
}

// The value of a colour in style.css: color("io") is --io.
export function color(name: string): string {
  let value = cache.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    cache.set(name, value);
  }
  return value;
}
