// Over time: the views that share one range (charts, intervals, heat map, events), and the bar that controls it.
import { register } from "./anchors";
import { makeCharts } from "./charts";
import type { Detail, Profile } from "./data";
import { empty, h, printable, section } from "./dom";
import * as format from "./format";
import { makeHeat } from "./heat";
import type { TimeRange } from "./range";
import { makeStretches } from "./stretches";
import { makeTimeline } from "./timeline";

export function makeOverTime(profile: Profile, detail: Detail, range: TimeRange): { element: HTMLElement; redraw: () => void } {
  const element = section("over-time", "Over time", null);
  register("timeline", element);
  register("stretches", element);
  if (profile.job.wall_ns === 0) {
    element.append(empty("The trace covers no time."));
    return { element, redraw: () => undefined };
  }
  const events = makeTimeline(detail, range, profile.job.traces);
  const views = [makeCharts(profile.timeline, range), makeStretches(profile, range),
    makeHeat(profile.heat, range, events.showRank), events].filter((view) => view !== null);
  element.append(makeBar(profile, detail, range), ...views.map((view) => view.element));
  return { element, redraw: () => views.forEach((view) => view.redraw()) };
}

function makeBar(profile: Profile, detail: Detail, range: TimeRange): HTMLElement {
  const shown = h("output", { id: "range", class: "range" });
  const tell = (): void => {
    const resolution = range.span / 500;
    shown.textContent = `${format.moment(range.begin, resolution)} to ${format.moment(range.end, resolution)} (${format.duration(range.span)})`;
    shown.dataset["begin"] = String(range.begin);
    shown.dataset["end"] = String(range.end);
  };
  range.subscribe(tell);
  tell();
  const button = (text: string, title: string, click: () => void): HTMLElement =>
    h("button", { type: "button", title, "aria-label": title, click }, text);
  return h("div", { class: "time-bar", role: "toolbar", "aria-label": "the stretch of time that is shown" },
    button("◀", "earlier (left arrow)", () => range.pan(-0.3)), button("▶", "later (right arrow)", () => range.pan(0.3)),
    button("+", "closer (+)", () => range.zoom(0.5)), button("−", "further (-)", () => range.zoom(2)),
    button("whole job", "the whole job (0)", () => range.reset()),
    makePlaces(profile, detail, range), shown,
    h("span", { class: "hint" }, "drag to zoom, shift and drag to move, wheel after a click, ? for keys"));
}

// A list of common places, for readers without a pointer or in a hurry.
function makePlaces(profile: Profile, detail: Detail, range: TimeRange): HTMLElement {
  const places: [string, number, number][] = [];
  for (const { why, begin_ns, end_ns } of detail.windows) places.push([`events: ${printable(why)}`, begin_ns, end_ns]);
  for (const { epoch, begin_ns, end_ns } of profile.epochs.slice(0, 200)) places.push([`epoch ${epoch}`, begin_ns, end_ns]);
  for (const { begin_ns, end_ns } of profile.checkpoints.slice(0, 200)) places.push([`checkpoint at ${format.moment(begin_ns, range.full / 1000)}`, begin_ns, end_ns]);
  for (const { step, rank, begin_ns, duration_ns } of profile.steps.slowest.slice(0, 10)) {
    places.push([`slow step ${step < 0 ? "" : step} of ${printable(profile.time.ranks[rank]?.name ?? `rank ${rank}`)}`, begin_ns, begin_ns + duration_ns]);
  }
  const select = h("select", {
    "aria-label": "go to", id: "places",
    change: () => {
      const place = places[Number(select.value)];
      if (place) range.set(place[1], place[2]);
      select.value = "";
    },
  }, h("option", { value: "" }, "go to ..."), ...places.map(([title], index) => h("option", { value: index }, title)));
  return select;
}
