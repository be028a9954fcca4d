// What pages do beyond htmx: arrivals and completion. All text is set as text, never as markup.
"use strict";
document.documentElement.classList.add("js");

// --- arrivals: lists with data-live show the newest first ---------------------------------------
function shown(value) {
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}
function arrival(told) {
  const line = element("li", undefined, { class: "new" });
  const head = element("p", undefined, { class: "head" });
  head.append(element("small", new Date(told.arrival).toISOString().slice(0, 19).replace("T", " ") + " UTC"), " ",
    element("a", "#" + told.subscription, { href: "/subscriptions/" + told.subscription }), " ",
    element("a", "why", { href: "/matches/" + encodeURIComponent(told.cursor) }));
  const list = element("dl", undefined, { class: "event" });
  for (const [name, value] of Object.entries(told.event)) {
    const pair = element("div", undefined, name === "event_type" ? { class: "badge" } : {});
    pair.append(element("dt", name), element("dd", shown(value)));
    list.append(pair);
  }
  line.append(head, list);
  if (told.bindings && told.bindings.length) {
    const each = (one) => Object.entries(one).map(([name, value]) => "?" + name + " = " + shown(value)).join(", ");
    const more = told.bindings.length > 5 ? "; …" : ".";
    line.append(element("p", "With " + told.bindings.slice(0, 5).map(each).join("; ") + more, { class: "bindings" }));
  }
  return line;
}
for (const feed of document.querySelectorAll("[data-live]")) {
  const source = new EventSource("/v1/notifications/stream?start=now");
  const state = document.getElementById("live-state");
  source.addEventListener("open", () => { if (state) state.textContent = "Live: what matches appears here at once."; });
  source.addEventListener("error", () => { if (state) state.textContent = "Connecting …"; });
  source.addEventListener("notification", (message) => {
    const told = JSON.parse(message.data);
    if (feed.dataset.only && feed.dataset.only !== String(told.subscription)) return;
    feed.querySelectorAll(".empty").forEach((one) => one.remove());
    feed.prepend(arrival(told));
    while (feed.children.length > Number(feed.dataset.live)) feed.lastElementChild.remove();
  });
  window.addEventListener("pagehide", () => source.close());
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
