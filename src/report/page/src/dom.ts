// Elements: makes all elements of the page. Text is only added as text nodes and never as markup, because file names
// are untrusted bytes.

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | undefined | ((event: never) => void);
type Attributes = Record<string, Value>;

// An attribute that is a function is a listener for the event of that name ("click").
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  append(element, ...children);
  return element;
}

export function append(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(printable(String(child))));
  }
}

// C0 and C1 controls; characters that change the direction of text; invisible characters.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// Makes hidden characters visible: a right-to-left override in a file name would show another name.
export function printable(text: string): string {
  return text.replace(UNSEEN, (unit) => {
    const code = unit.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

// A name chosen by others, isolated so that it cannot change the direction of the text around it.
export function foreign(text: string, attributes: Attributes = {}): HTMLElement {
  return h("bdi", { title: printable(text), ...attributes }, printable(text));
}

// A path. If there is no room, its directory is cut and the file name is kept.
export function pathOf(path: string): HTMLElement {
  const text = printable(path);
  const slash = text.lastIndexOf("/") + 1;
  return h("span", { class: "code path", title: text }, slash > 0 && h("bdi", { class: "path-folder" }, text.slice(0, slash)),
    h("bdi", { class: "path-name" }, text.slice(slash)));
}

// Lines; each is a separate name or sentence.
export function lines(text: string): HTMLElement {
  return h("span", {}, ...text.split("\n").flatMap((line, index) => [index > 0 && h("br"), foreign(line, { title: "" })]));
}

// A number with its path in the JSON and its exact value, for tests and for curious readers.
export function figure(path: string, value: number | string, text: string): HTMLElement {
  return h("span", { class: "figure", "data-path": path, "data-value": value, title: `${path}: ${value}` }, text);
}

export function section(id: string, title: string, lead: Child, ...children: Child[]): HTMLElement {
  return h("section", { id, class: "part", "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, ...children);
}

export const empty = (text: string): HTMLElement => h("p", { class: "empty" }, text);
