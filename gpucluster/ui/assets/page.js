// What the page does itself: it hands the beat to htmx, draws curves, and knows keys. All texts are set as text.
"use strict";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// ---- the beat ----

let beat = null;
let heard = Date.now();
let lost = "connecting…";
let waiting = false;

function listen() {
  if (window.SharedWorker) {
    const worker = new SharedWorker("/assets/worker.js");
    const seen = () => worker.port.postMessage(document.hidden ? "hidden" : "seen");
    worker.port.onmessage = (event) => hear(event.data);
    document.addEventListener("visibilitychange", seen);
    seen();
    window.addEventListener("pagehide", () => worker.port.postMessage("bye"));
    window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  } else {
    const stream = new EventSource("/beats");
    stream.addEventListener("beat", (event) => hear({ beat: JSON.parse(event.data) }));
    stream.onerror = () => hear({ lost: stream.readyState === EventSource.CLOSED ? "ended" : "away" });
  }
}

function hear(words) {
  if (words.beat) {
    beat = words.beat;
    heard = Date.now();
    lost = "";
    refresh();
  } else {
    lost = words.lost === "ended" ? "this page has ended: run `gpucluster ui` again" : "the program `gpucluster ui` does not answer";
  }
  say();
}

function refresh() {
  waiting = document.hidden;
  if (!waiting) document.body.dispatchEvent(new CustomEvent("beat"));
}

function age(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function say() {
  const old = beat && beat.age_s !== null ? `as of ${age(beat.age_s + (Date.now() - heard) / 1000)} ago` : "";
  const problem = lost || (beat && beat.problem) || "";
  const words = [problem, old].filter(Boolean).join(" · ");
  const place = one("#beat");
  if (place.textContent !== words) place.textContent = words;
  place.classList.toggle("bad", Boolean(problem) && lost !== "connecting…");
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) refresh(); });

// ---- curves ----

const drawn = new Map(); // title -> {plot, names}

async function curves() {
  const place = one("#charts");
  if (!place || document.hidden || place.offsetParent === null) return;
  const node = one("#curve-node").value;
  let found;
  try {
    const answer = await fetch(`${place.dataset.src}?node=${encodeURIComponent(node)}`);
    if (!answer.ok) return;
    found = await answer.json();
  } catch { return; } // the beat says so
  const titles = new Set(found.charts.map((chart) => chart.title));
  for (const [title, old] of drawn) if (!titles.has(title)) remove(title, old);
  found.charts.forEach((chart) => draw(place, chart));
  lacks(place, found.lacks);
}

function lacks(place, sentences) {
  let said = one("#charts-lack");
  if (!said) {
    said = document.createElement("p");
    said.id = "charts-lack";
    said.className = "lacks";
    place.before(said);
  }
  said.textContent = sentences.join("; ");
  said.hidden = !sentences.length;
}

function remove(title, old) {
  old.plot.destroy();
  old.figure.remove();
  drawn.delete(title);
}

function draw(place, chart) {
  const names = chart.lines.map((line) => line.name).join("\n");
  const data = uPlot.join(chart.lines.map((line) => [line.x, line.y]));
  let old = drawn.get(chart.title);
  if (old && old.names !== names) {
    remove(chart.title, old);
    old = null;
  }
  if (old) {
    old.plot.setData(data);
    return;
  }
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = chart.unit ? `${chart.title}, ${chart.unit}` : chart.title;
  figure.append(caption);
  place.append(figure);
  drawn.set(chart.title, { plot: new uPlot(options(chart, figure), data, figure), names, figure });
}

function brief(value) {
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(0) : short.format(value);
}

function options(chart, figure) {
  const style = getComputedStyle(document.body);
  const text = style.getPropertyValue("--muted"), grid = style.getPropertyValue("--line");
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const colour = (at) => style.getPropertyValue(`--c${at % 8}`);
  return {
    width: Math.max(200, figure.clientWidth),
    height: 170,
    legend: { show: chart.lines.length > 1 && chart.lines.length <= 8 },
    cursor: { sync: { key: "job" }, points: { size: 5 } },
    scales: chart.unit === "%" ? { y: { range: [0, 105] } } : {},
    axes: [{ ...axis, space: 90, values: (plot, times) => clock(times) }, { ...axis, size: 56, values: (plot, values) => values.map(brief) }],
    series: [{ label: "time", value: (plot, time) => (time === null ? "–" : moment(time)) }, ...chart.lines.map((line, at) => ({
      label: line.name,
      stroke: colour(at),
      width: 1.5,
      spanGaps: true,
      points: { show: line.x.length === 1 },
      value: (plot, value) => (value === null || value === undefined ? "–" : `${+value.toPrecision(5)} ${chart.unit}`),
    }))],
  };
}

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const two = (number) => String(number).padStart(2, "0");

function moment(time) {
  const at = new Date(time * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function clock(times) { // days only where they change; seconds only where ticks are less than a minute apart
  let day = times.length ? new Date(times[0] * 1000).getDate() : 0;
  const length = times.length > 1 && times[1] - times[0] < 60 ? 8 : 5;
  return times.map((time) => {
    const at = new Date(time * 1000);
    const date = at.getDate() === day ? "" : `\n${at.getMonth() + 1}/${at.getDate()}`;
    day = at.getDate();
    return moment(time).slice(0, length) + date;
  });
}

function repaint() { // dark or light: the lines' colours are drawn into canvases
  for (const [title, old] of [...drawn]) remove(title, old);
  curves();
}

function resize() {
  for (const { plot, figure } of drawn.values()) plot.setSize({ width: Math.max(200, figure.clientWidth), height: 170 });
}

function nodes() {
  const choice = one("#curve-node");
  if (!choice) return;
  const known = new Set([...choice.options].map((option) => option.value));
  for (const node of all("[data-node]")) {
    if (!known.has(node.textContent)) choice.add(new Option(node.textContent, node.textContent));
  }
}

// ---- the log ----

function still(event) { // the log stands still while it is asked to, or while text in it is selected
  const lines = one("#log-lines");
  if (!lines || event.target !== lines) return;
  const selected = String(getSelection()) && lines.contains(getSelection().anchorNode);
  if (one("#still").checked || selected) event.preventDefault();
}

let atEnd = true;
function before() {
  const log = one("pre.log");
  if (log) atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
}
function after() {
  const log = one("pre.log");
  if (log && atEnd) log.scrollTop = log.scrollHeight;
}

// ---- keys ----

let before_g = false;

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "Escape") document.activeElement.blur();
  if (typing) return;
  if (before_g) {
    before_g = false;
    one(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "/") {
    const filter = one("input[type=search]");
    if (filter) { event.preventDefault(); filter.focus(); filter.select(); }
  } else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "g") before_g = true;
  else if (event.key === "?") one("#keys").showModal();
}

function step(by) {
  const rows = all("a[data-row]");
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

// ---- start ----

document.addEventListener("keydown", key);
document.addEventListener("submit", (event) => {
  const question = event.target.dataset?.confirm;
  if (question && !confirm(question)) event.preventDefault();
  if (event.target.id === "log-form") event.preventDefault();
});
document.addEventListener("input", (event) => { // other words: their first page
  const page = event.target.form?.elements.page;
  if (page) page.value = 1;
});
document.body.addEventListener("beat", () => { nodes(); curves(); });
document.body.addEventListener("htmx:before:request", still);
document.body.addEventListener("htmx:before:swap", before);
document.body.addEventListener("htmx:after:swap", () => { after(); nodes(); });
window.addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
one("#help").addEventListener("click", () => one("#keys").showModal());
one("#curve-node")?.addEventListener("change", curves);
setInterval(say, 1000);
listen();
curves();
