// What a page can do beyond showing itself: parts that change while somebody looks, a chart, keys.
// Without it every page says the same and every form works. All times are in UTC.

const MOMENT = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", timeZone: "UTC",
});

function clockTimes(_, seconds, __, ___, step) { // labels of the axis, a step apart
  const day = { month: "short", day: "numeric" };
  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const parts = step < 60 ? { ...clock, second: "2-digit" }
    : step < 6 * 3600 ? clock : step < 24 * 3600 ? { ...day, ...clock } : day;
  const format = new Intl.DateTimeFormat(undefined, { ...parts, timeZone: "UTC" });
  return seconds.map((second) => format.format(second * 1000));
}

// Parts that change

const RETRY = [2, 4, 8, 15]; // seconds, where the browser has given up by itself

class Live {
  constructor(root) {
    this.root = root;
    this.state = root.querySelector("[data-live-state]");
    this.parts = new Map();
    this.failures = 0;
    document.addEventListener("visibilitychange", () => this.turn());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => { if (event.persisted) this.turn(); });
    this.turn();
  }

  turn() { // a hidden page needs no updates
    if (document.hidden) this.close();
    else if (!this.source) this.open();
  }

  open() {
    clearTimeout(this.later);
    this.source = new EventSource(this.root.dataset.live);
    this.source.addEventListener("open", () => { this.failures = 0; this.say("Live."); });
    this.source.addEventListener("parts", (event) => this.take(JSON.parse(event.data)));
    this.source.addEventListener("end", () => this.again("The server stops."));
    this.source.addEventListener("error", () => {
      if (this.source && this.source.readyState === EventSource.CLOSED) this.again();
      else this.say("Not live: the server does not answer. Trying again.");
    });
  }

  again(why = "Not live: the server does not answer, or you are signed out.") {
    this.close();
    const seconds = RETRY[Math.min(this.failures++, RETRY.length - 1)];
    this.say(`${why} Trying again.`);
    this.later = setTimeout(() => this.turn(), seconds * 1000);
  }

  close() {
    clearTimeout(this.later);
    if (this.source) this.source.close();
    this.source = undefined;
  }

  take(parts) { // all parts that arrive before the next frame are shown together
    const idle = this.parts.size === 0;
    for (const [name, html] of Object.entries(parts)) this.parts.set(name, html);
    if (idle) requestAnimationFrame(() => this.show());
  }

  show() {
    const begin = performance.now();
    for (const [name, html] of this.parts) {
      const place = document.getElementById(name);
      if (!place) continue;
      place.innerHTML = html;
      offerCopies(place);
      writeTimes(place);
    }
    this.parts.clear();
    document.dispatchEvent(new CustomEvent("likewise:shown"));
    this.root.dataset.updates = Number(this.root.dataset.updates ?? 0) + 1;
    this.root.dataset.slowest = Math.max(
      Number(this.root.dataset.slowest ?? 0), performance.now() - begin).toFixed(1);
  }

  say(words) {
    if (!this.state || this.state.textContent === words) return;
    this.state.hidden = false;
    this.state.textContent = words;
  }
}

// The chart, drawn from the numbers that the page carries

class Chart {
  constructor(place) {
    this.place = place;
    const redraw = () => this.draw();
    document.addEventListener("likewise:shown", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restart());
    new ResizeObserver(() => this.fit()).observe(place.parentElement);
    redraw();
  }

  draw() {
    const numbers = document.querySelector("[data-series]")?.dataset.series;
    if (!numbers || numbers === this.numbers || !window.uPlot) return;
    this.numbers = numbers;
    const data = JSON.parse(numbers);
    this.place.hidden = data[0].length < 2 || data[1].every((rate) => rate === null);
    if (this.place.hidden) return;
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.place);
  }

  options() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)}%`);
    const shares = (_, marks, __, ___, step) => // labels of the axis, a step apart
      marks.map((mark) => `${(100 * mark).toFixed(step < 0.0099 ? 1 : 0)}%`);
    const axis = {
      stroke: colour("--muted"),
      grid: { stroke: colour("--hair"), width: 1 },
      ticks: { stroke: colour("--hair"), width: 1 },
    };
    const edge = { stroke: "transparent", points: { show: false } };
    return {
      width: this.width(), height: 260, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      padding: [null, 32, null, null], // room for half a label
      cursor: { y: false },
      scales: { y: { range: (_, __, most) => [0, Math.max(0.01, most * 1.1)] } },
      axes: [{ ...axis, space: 70, values: clockTimes }, { ...axis, size: 56, values: shares }],
      series: [
        { label: "time (UTC)", value: (_, v) => (v === null ? "–" : MOMENT.format(v * 1000)) },
        { label: "rate", stroke: colour("--accent"), width: 2, value: (_, v) => percent(v),
          points: { size: 4 } },
        { label: "usual, from", ...edge, value: (_, v) => percent(v) },
        { label: "to", ...edge, value: (_, v) => percent(v) },
      ],
      bands: [{ series: [3, 2], fill: `${colour("--quiet")}44` }],
    };
  }

  width() { return Math.max(200, this.place.parentElement.clientWidth); }

  fit() {
    if (this.plot && this.plot.width !== this.width()) {
      this.plot.setSize({ width: this.width(), height: 260 });
    }
  }

  restart() { // other colours
    if (this.plot) this.plot.destroy();
    this.plot = this.numbers = undefined;
    this.draw();
  }
}

// Buttons that copy, keys that press

function writeTimes(within) { // as the reader does, in UTC
  for (const time of within.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.textContent = moment.toLocaleString(undefined, {
      dateStyle: "medium", timeStyle: "medium", timeZone: "UTC",
    });
  }
}

function offerCopies(within) {
  if (!navigator.clipboard) return; // only where the connection is trusted
  for (const button of within.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

const TYPED = "input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]";

function pressKeys(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.target.form?.requestSubmit();
    return;
  }
  const busy = event.target.closest?.(TYPED);
  if (busy && event.key === "Escape") busy.blur();
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input[type=text], input:not([type]), textarea, select")) target.focus();
  else target.click();
  if (target.dataset.then) document.getElementById(target.dataset.then)?.focus();
}

offerCopies(document);
writeTimes(document);
document.addEventListener("keydown", pressKeys);
for (const root of document.querySelectorAll("[data-live]")) new Live(root);
const again = document.querySelector("[data-again]"); // something is being computed
if (again) setTimeout(() => location.reload(), 1000 * again.dataset.again);
const chart = document.getElementById("chart");
if (chart) new Chart(chart);
