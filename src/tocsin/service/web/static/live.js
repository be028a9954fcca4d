// One stream of notifications for all tabs of a browser: a shared worker, which tells its tabs that something is new.
// What is new they ask for themselves, from where they are; so nothing is lost while the stream is away.
"use strict";
const tabs = new Set();
let source, state = "waiting";
function tell(message) { for (const tab of tabs) tab.postMessage(message); }
function become(next) { state = next; tell({ state }); }
function connect() {
  source = new EventSource("/v1/notifications/stream?start=now");
  source.addEventListener("open", () => become("live"));
  source.addEventListener("notification", () => tell({ state: "live" }));
  source.addEventListener("lease", (message) => tell({ lease: JSON.parse(message.data) }));
  source.addEventListener("paused", (message) => tell({ paused: JSON.parse(message.data) }));
  source.addEventListener("error", () => {
    become("waiting");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 5000); // refused: it does not come back by itself
  });
}
self.addEventListener("connect", (event) => {
  const tab = event.ports[0];
  tabs.add(tab);
  tab.addEventListener("message", () => tabs.delete(tab)); // a tab says one thing: that it goes
  tab.start();
  tab.postMessage({ state });
  if (!source) connect();
});
