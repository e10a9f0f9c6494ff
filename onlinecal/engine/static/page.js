"use strict";

const EVERY = 1000;       // milliseconds between two looks
const KEPT = 600;         // looks in the chart
const LINES = 10;         // keys in the table
const TOKEN = "onlinecal token";
const PLOT = { left: 78, right: 706, top: 30, bottom: 204 };

const at = (id) => document.getElementById(id);
const samples = [];       // {at: seconds, events, measured, bound}

const whole = (x) => x.toLocaleString("en");
const small = (x) => (x === null ? "–" : x === 0 ? "0" : x >= 1e-3 ? x.toFixed(4) : x.toExponential(2));
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

function show(total, lines) {
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
  list(lines);
  draw();
}

// over the last three seconds, so that single bursts do not flicker
function speedAt(now, events) {
  const before = samples.find((one) => now - one.at <= 3.5);
  return before && before.events <= events ? (events - before.events) / (now - before.at) : null;
}

function list(lines) {
  const rows = lines.map((line) => {
    const row = document.createElement("tr");
    const key = document.createElement("th");
    key.scope = "row";
    key.textContent = key.title = line.key;
    row.append(key);
    const measured = perRound(line.certificate, line.rounds);
    const bound = perRound(line.guarantee, line.rounds);
    for (const text of [small(measured), small(bound), whole(line.rounds), whole(line.open)]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  });
  at("largest").replaceChildren(...rows);
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

function draw() {
  const drawn = samples.filter((one) => one.measured !== null);
  if (!drawn.length) {
    at("chart-words").textContent = "Nothing is settled yet.";
    return;
  }
  const [first, last] = [drawn[0].at, drawn[drawn.length - 1].at];
  const span = Math.max(last - first, 10);
  const top = roundUp(Math.max(...drawn.map((one) => Math.max(one.measured, one.bound))));
  const x = (time) => PLOT.right - ((last - time) / span) * (PLOT.right - PLOT.left);
  const y = (value) => PLOT.bottom - (value / top) * (PLOT.bottom - PLOT.top);
  const parts = [];
  for (let step = 0; step <= 4; step += 1) {
    const value = (top * step) / 4;
    parts.push(element("line", { class: "grid", x1: PLOT.left, x2: PLOT.right, y1: y(value), y2: y(value) }));
    parts.push(element("text", { x: PLOT.left - 8, y: y(value) + 5, "text-anchor": "end" }, tidy(value)));
  }
  parts.push(element("text", { x: PLOT.left, y: 230 }, `${Math.round(span)} s ago`));
  parts.push(element("text", { x: PLOT.right, y: 230, "text-anchor": "end" }, "now"));
  for (const name of ["bound", "measured"]) {
    const points = drawn.map((one) => `${x(one.at).toFixed(1)},${y(one[name]).toFixed(1)}`);
    const path = points.length > 1 ? points.join(" ") : `${PLOT.right - 4},${points[0].split(",")[1]} ${points[0]}`;
    parts.push(element("polyline", { class: name, points: path }));
  }
  parts.push(element("text", { class: "measured-name", x: PLOT.left, y: 18 }, "— certificate per round"));
  parts.push(element("text", { class: "bound-name", x: PLOT.right, y: 18, "text-anchor": "end" }, "- - its guarantee"));
  at("chart").replaceChildren(...parts);
  const { measured, bound } = drawn[drawn.length - 1];
  at("chart-words").textContent = `Now ${small(measured)} per round, at most ${small(bound)}.`;
}

// the next of 1, 2, 5, 10, 20, 50 ... that is as large
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= value);
}

const tidy = (value) => String(Number(value.toPrecision(3)));

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
    const [total, largest] = await Promise.all([read("certificate"), read(`keys?order=largest&limit=${LINES}`)]);
    at("login").hidden = true;
    at("numbers").hidden = false;
    show(total, largest.keys);
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
