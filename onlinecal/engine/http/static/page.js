"use strict";

const EVERY = 1000;       // milliseconds between two looks
const KEPT = 600;         // looks in the chart
const LINES = 10;         // keys in the table
const TOKEN = "onlinecal token";
const HEIGHT = 240;       // of the chart, its width is that of the page
const MARGIN = { left: 56, right: 6, top: 30, bottom: 28 };
const SQUARE = 300;       // height of the picture of reliability

const at = (id) => document.getElementById(id);
const samples = [];       // {at: seconds, events, measured, bound}

const whole = (x) => x.toLocaleString("en");
const small = (x) => (x === null || x === undefined ? "–" : x === 0 ? "0" : x >= 1e-3 ? x.toFixed(4) : x.toExponential(2));
const perRound = (sum, rounds) => (rounds ? sum / rounds : null);

async function read(path) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(5 * EVERY) });
  if (answer.status === 401) {
    throw new Locked();
  }
  const found = await answer.json();
  if (!answer.ok) {
    throw new Error(found.error);
  }
  return found;
}

class Locked extends Error {}

function show(overview) {
  const total = overview.total;
  const now = performance.now() / 1000;
  const measured = perRound(total.certificate, total.rounds);
  const bound = perRound(total.guarantee, total.rounds);
  const speed = speedAt(now, total.events);
  if (samples.length && total.events < samples[samples.length - 1].events) {
    samples.length = 0;  // another ledger is served now
  }
  samples.push({ at: now, events: total.events, measured, bound });
  samples.splice(0, samples.length - KEPT);

  at("per-round").value = small(measured);
  at("promised").value = small(bound);
  at("certificate").value = whole(total.certificate);
  at("guarantee").value = whole(total.guarantee);
  at("share").style.width = `${total.guarantee ? Math.min(100, (100 * total.certificate) / total.guarantee) : 0}%`;
  at("speed").value = speed === null ? "–" : whole(Math.round(speed));
  for (const name of ["open", "rounds", "expired", "events", "keys"]) {
    at(name).value = whole(total[name]);
  }
  quality(overview);
  at("largest").replaceChildren(...overview.largest.map(certificateRow));
  alarms(overview);
  draw();
  drawReliability(overview);
}

function quality({ scores, forecasts, hints, alarms, hint_alarms, refused, total, oldest, parking }) {
  const of = (name) => (scores ? small(scores[name]) : "–");
  for (const [id, name] of [["brier", "brier"], ["log-loss", "log_loss"]]) {
    for (const [suffix, field] of [["", ""], ["-hint", "_hint"], ["-constant", "_constant"]]) {
      at(id + suffix).textContent = of(name + field);
    }
  }
  for (const [suffix, side] of [["", forecasts], ["-hint", hints]]) {
    const [low, high] = side.distance && side.rounds ? side.distance : [null, null];
    at("low" + suffix).textContent = small(perRound(low, low === null ? 0 : side.rounds));
    at("high" + suffix).textContent = small(perRound(high, high === null ? 0 : side.rounds));
  }
  for (const [id, number] of [["alarms", alarms], ["hint-alarms", hint_alarms]]) {
    at(id).textContent = whole(number);
    at(id).classList.toggle("bad", number > 0);
  }
  const reasons = Object.entries(refused).map(([reason, count]) => `${whole(count)} ${reason}`);
  at("refused").value = reasons.join(", ") || "none";
  const dropped = Object.values(parking.dropped).reduce((sum, count) => sum + count, 0);
  const parked = [[parking.waiting, "wait"], [parking.settled, "settled"], [dropped, "dropped"]];
  const parts = parked.filter(([count]) => count).map(([count, word]) => `${whole(count)} ${word}`);
  at("parked").value = parts.join(", ") || "none";
  at("oldest").value = oldest === null ? "none" : `${whole(total.events - oldest)} events ago`;
}

function alarms({ alarmed, total }) {
  const rows = alarmed.map(({ key, watched }) => {
    const both = [["forecasts", watched.last, watched.alarms], ["hints", watched.last_hint, watched.hint_alarms]];
    const last = both.filter(([, alarm]) => alarm).sort(([, a], [, b]) => b.event - a.event)[0];
    const [of, alarm, count] = last;
    const where = alarm.low === 0 && alarm.high === 1 ? "everywhere" : `${alarm.low} to ${alarm.high}`;
    return line(key, [of, alarm.direction, where, whole(total.events - alarm.event), whole(count)]);
  });
  at("alarmed").replaceChildren(...rows);
  at("alarmed-table").hidden = !rows.length;
  at("no-alarms").hidden = rows.length > 0;
}

// over the last three seconds, so that single bursts do not flicker
function speedAt(now, events) {
  const before = samples.find((one) => now - one.at <= 3.5);
  return before && before.events <= events ? (events - before.events) / (now - before.at) : null;
}

function line(name, texts) {
  const row = document.createElement("tr");
  const key = document.createElement("th");
  key.scope = "row";
  // a name may have characters that turn the direction of text: they end with it, also where there are no tags
  const isolated = document.createElement("bdi");
  isolated.textContent = name;
  key.title = `\u2068${name}\u2069`;
  key.append(isolated);
  row.append(key);
  for (const text of texts) {
    const cell = document.createElement("td");
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

function certificateRow({ key, certificate, guarantee, rounds, open, watched }) {
  const scores = watched && watched.scores;
  return line(key, [
    small(perRound(certificate, rounds)), small(perRound(guarantee, rounds)),
    small(scores ? scores.brier : null), small(scores ? scores.brier_hint : null), whole(rounds), whole(open),
  ]);
}

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  if (text !== undefined) {
    made.textContent = text;
  }
  return made;
}

// a logarithmic scale: the guarantee is far above the certificate, and both fall like powers of the rounds
function draw() {
  const drawn = samples.filter((one) => one.measured !== null);
  if (!drawn.length) {
    at("chart-words").textContent = "Nothing is settled yet.";
    return;
  }
  const chart = at("chart");
  const width = chart.clientWidth || 320;
  chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const { left, top } = MARGIN;
  const [right, bottom] = [width - MARGIN.right, HEIGHT - MARGIN.bottom];
  const last = drawn[drawn.length - 1];
  const span = Math.max(last.at - drawn[0].at, 10);
  const logs = drawn.flatMap((one) => [one.measured, one.bound]).filter((x) => x > 0).map(Math.log10);
  const high = Math.ceil(Math.max(...logs, -1));
  const low = Math.min(Math.floor(Math.min(...logs, high)), high - 1);
  const x = (time) => right - ((last.at - time) / span) * (right - left);
  const y = (log) => bottom - ((Math.max(log, low) - low) / (high - low)) * (bottom - top);

  const parts = [];
  for (let power = low; power <= high; power += 1) {
    parts.push(element("line", { class: "grid", x1: left, x2: right, y1: y(power), y2: y(power) }));
    parts.push(element("text", { x: left - 8, y: y(power) + 4, "text-anchor": "end" }, tick(power)));
  }
  parts.push(element("text", { x: left, y: HEIGHT - 6 }, `${Math.round(span)} s ago`));
  parts.push(element("text", { x: right, y: HEIGHT - 6, "text-anchor": "end" }, "now"));
  for (const name of ["bound", "measured"]) {
    const points = drawn.map((one) => `${x(one.at).toFixed(1)},${y(Math.log10(one[name])).toFixed(1)}`);
    const dash = `${right - 4},${points[0].split(",")[1]}`;
    parts.push(element("polyline", { class: name, points: [...(points[1] ? [] : [dash]), ...points].join(" ") }));
  }
  parts.push(element("text", { class: "measured-name", x: left, y: 16 }, "— certificate per round"));
  parts.push(element("text", { class: "bound-name", x: right, y: 16, "text-anchor": "end" }, "- - its guarantee"));
  chart.replaceChildren(...parts);
  at("chart-words").textContent = `Now ${small(last.measured)} per round, at most ${small(last.bound)}.`;
}

// dots as large as the bins are full, on the diagonal if what was forecast came as often
function drawReliability({ forecasts, hints, since }) {
  if (!forecasts.rounds) {
    at("reliability-words").textContent = "Nothing is settled yet.";
    return;
  }
  const picture = at("reliability");
  const width = picture.clientWidth || 320;
  picture.setAttribute("viewBox", `0 0 ${width} ${SQUARE}`);
  const [left, right, top, bottom] = [40, width - 10, 30, SQUARE - 28];
  const x = (p) => left + p * (right - left);
  const y = (p) => bottom - p * (bottom - top);
  const parts = [];
  for (const p of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(element("line", { class: "grid", x1: x(0), x2: x(1), y1: y(p), y2: y(p) }));
    parts.push(element("text", { x: left - 6, y: y(p) + 4, "text-anchor": "end" }, p));
    parts.push(element("text", { x: x(p), y: SQUARE - 8, "text-anchor": p === 1 ? "end" : "middle" }, p));
  }
  parts.push(element("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  for (const [name, side] of [["hints", hints], ["forecasts", forecasts]]) {
    for (const { rounds, forecast, outcome } of side.bins) {
      const r = 2 + 7 * Math.sqrt(rounds / side.rounds);
      const dot = element("circle", { class: name, cx: x(forecast).toFixed(1), cy: y(outcome).toFixed(1), r: r.toFixed(1) });
      dot.append(element("title", {}, `${name}: ${small(forecast)} came ${small(outcome)}, ${whole(rounds)} rounds`));
      parts.push(dot);
    }
  }
  parts.push(element("text", { class: "forecasts", x: left, y: 16 }, "● forecasts"));
  if (hints.rounds) {
    parts.push(element("text", { class: "hints", x: right, y: 16, "text-anchor": "end" }, "○ hints"));
  }
  picture.replaceChildren(...parts);
  const begun = since ? ` since event ${whole(since)}` : "";
  at("reliability-words").textContent = `${whole(forecasts.rounds)} rounds${begun}; the frequency of the outcome against the forecast.`;
}

const tick = (power) => (power < -3 || power > 4 ? `1e${power}` : String(Number(`1e${power}`)));

function tell(text, lost) {
  if (at("state").textContent !== text) {
    at("state").textContent = text;
  }
  at("state").classList.toggle("lost", lost);
}

function ask(wrong) {
  sessionStorage.removeItem(TOKEN);
  at("numbers").hidden = true;
  at("wrong").textContent = wrong ? "This is not the token." : "";
  if (at("login").hidden) {
    at("login").hidden = false;
    at("token").focus();
  }
  tell("locked", false);
}

let looking = false;

async function look() {
  if (looking) {
    return;
  }
  looking = true;
  try {
    const overview = await read(`watch?keys=${LINES}`);
    at("login").hidden = true;
    at("numbers").hidden = false;
    show(overview);
    tell("live", false);
  } catch (error) {
    if (error instanceof Locked) {
      ask(sessionStorage.getItem(TOKEN) !== null);
      return;
    }
    tell(`no answer: ${error.message}`, true);
  } finally {
    looking = false;
  }
  setTimeout(look, EVERY);
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  look();
});

look();
