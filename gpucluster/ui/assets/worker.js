// Shared by all tabs of a browser: one stream of the server, handed on to each tab (gpucluster/ui/stream.py).
"use strict";

const tabs = new Set();
let last = null;
let stream = null;

function tell(words) {
  for (const tab of tabs) tab.postMessage(words);
}

function listen() {
  stream = new EventSource("/beats");
  stream.addEventListener("beat", (event) => {
    last = { beat: JSON.parse(event.data) };
    tell(last);
  });
  stream.onerror = () => {
    // CLOSED: the server refuses, which is another one now. Otherwise the browser tries again by itself.
    last = { lost: stream.readyState === EventSource.CLOSED ? "ended" : "away" };
    tell(last);
  };
}

self.onconnect = (event) => {
  const tab = event.ports[0];
  tabs.add(tab);
  tab.onmessage = (message) => {
    if (message.data === "bye") tabs.delete(tab);
  };
  if (!stream) listen();
  if (last) tab.postMessage(last);
};
