// What pages do beyond htmx: toasts, times, arrivals, completion. All text is set as text, never as markup.
"use strict";
document.documentElement.classList.add("js");

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

// --- toasts: what was done goes by itself, what is wrong stays until it is read -----------------------------------
function toast(text) {
  const made = element("p", text, { class: "toast", role: "status" });
  document.getElementById("toasts").append(made);
}
for (const one of document.querySelectorAll(".toast.done")) setTimeout(() => one.classList.add("gone"), 8000);

// --- times: in the visitor's own, and how long ago ----------------------------------------------------------------
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
function sayTimes(within) {
  for (const one of within.querySelectorAll("time[datetime]")) {
    const at = new Date(one.dateTime), seconds = (at - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) || UNITS[3];
    one.title = at.toLocaleString();
    one.textContent = Math.abs(seconds) < 7 * 86400 ? ago.format(Math.trunc(seconds / size), unit) : at.toLocaleString();
  }
}
sayTimes(document);
setInterval(() => sayTimes(document), 30000);
document.addEventListener("htmx:afterSwap", (event) => sayTimes(event.target));

// --- arrivals: a list with data-live asks for what is newer than its first entry ----------------------------------
const feed = document.querySelector("[data-live]");
let asking = false, again = false;
async function ask() {
  if (asking || document.hidden) { again = true; return; }
  asking = true;
  again = false;
  const first = feed.querySelector("li[data-seq]"), address = new URL(feed.dataset.live, location.href);
  address.searchParams.set("after", first ? first.dataset.seq : "0");
  try {
    await htmx.ajax("GET", address.pathname + address.search, { target: feed, swap: "afterbegin" });
    again ||= feed.querySelector("li[data-seq]") !== first; // there may be more than a page of it
    if (feed.querySelector("li[data-seq]")) feed.querySelectorAll(".empty").forEach((one) => one.remove());
    while (feed.children.length > Number(feed.dataset.most || 200)) feed.lastElementChild.remove();
  } finally {
    setTimeout(() => { asking = false; if (again) ask(); }, 250);
  }
}
function listen() {
  const state = document.getElementById("live-state");
  if (!window.SharedWorker) { setInterval(ask, 5000); return; }
  const worker = new SharedWorker("/static/live.js", { name: "tocsin " + document.body.dataset.account });
  worker.port.addEventListener("message", (message) => {
    if (message.data.lease) toast("Subscription #" + message.data.lease.subscription + " ends soon: renew it to go on.");
    if (message.data.paused) toast("Subscription #" + message.data.paused.subscription + " was paused: " + message.data.paused.reason + ".");
    if (!message.data.state) return;
    if (state) state.textContent = message.data.state === "live" ? "Live: what matches appears here at once." : "Connecting …";
    if (message.data.state === "live") ask();
  });
  worker.port.start();
  window.addEventListener("pagehide", () => worker.port.postMessage("bye"));
}
if (feed) {
  listen();
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) ask(); });
}

// --- completion in the text of a subscription ----------------------------------------------------
function completions(text, at, vocabulary) {
  const before = text.slice(0, at);
  const word = /[\p{L}\p{N}_.']*$/u.exec(before)[0];
  const value = /([\p{L}_][\p{L}\p{N}_.]*)\s*(?:=|!=|kind of|contains(?: any)?|in)\s*\(?\s*(?:'[^']*'\s*,\s*)*'?([^',)]*)$/u.exec(before);
  if (value && vocabulary[value[1]] && vocabulary[value[1]].length) {
    const typed = value[2].toLowerCase();
    return { from: at - value[2].length - (before[at - value[2].length - 1] === "'" ? 1 : 0),
      options: vocabulary[value[1]].filter((one) => one.toLowerCase().startsWith(typed)).map((one) => "'" + one.replaceAll("'", "''") + "'") };
  }
  const names = word.length ? Object.keys(vocabulary).filter((one) => one.startsWith(word) && one !== word) : [];
  return { from: at - word.length, options: names };
}
function closeList(list) { list.hidden = true; list.replaceChildren(); }
function take(area, list, option) {
  area.setRangeText(option.dataset.value, Number(list.dataset.from), area.selectionStart, "end");
  closeList(list);
  area.focus();
  area.dispatchEvent(new Event("input", { bubbles: true }));
}
document.addEventListener("input", (event) => {
  const area = event.target;
  if (area.id !== "text") return;
  const list = document.getElementById("completions");
  const found = completions(area.value, area.selectionStart, JSON.parse(area.dataset.vocabulary || "{}"));
  list.replaceChildren(...found.options.slice(0, 12).map((one, place) => {
    const line = element("li", one, { "aria-selected": String(place === 0) });
    line.dataset.value = one;
    line.addEventListener("mousedown", (click) => { click.preventDefault(); take(area, list, line); });
    return line;
  }));
  list.dataset.from = found.from;
  list.hidden = !found.options.length;
});
document.addEventListener("keydown", (event) => {
  const list = document.getElementById("completions");
  if (event.target.id !== "text" || !list || list.hidden) return;
  const lines = [...list.children], place = lines.findIndex((one) => one.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    lines[place].setAttribute("aria-selected", "false");
    lines[(place + (event.key === "ArrowDown" ? 1 : lines.length - 1)) % lines.length].setAttribute("aria-selected", "true");
  } else if (event.key === "Tab" || event.key === "Enter") {
    event.preventDefault();
    take(event.target, list, lines[place]);
  } else if (event.key === "Escape") closeList(list);
});
document.addEventListener("focusout", (event) => {
  const list = document.getElementById("completions");
  if (event.target.id === "text" && list) closeList(list);
});
