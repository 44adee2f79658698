// Shared by all tabs of a browser: one stream of the server, handed on to each tab (gpucluster/ui/stream.py). While
// nobody sees a tab there is none, so that a forgotten page asks the cluster nothing.
"use strict";

const tabs = new Map(); // port -> whether somebody sees the tab
let last = null;
let stream = null;

function tell(words) {
  last = words;
  for (const tab of tabs.keys()) tab.postMessage(words);
}

function listen() {
  stream = new EventSource("/beats");
  stream.addEventListener("beat", (event) => tell({ beat: JSON.parse(event.data) }));
  // CLOSED: the server refuses, which is another one now. Otherwise the browser tries again by itself.
  stream.onerror = () => tell({ lost: stream.readyState === EventSource.CLOSED ? "ended" : "away" });
}

function settle() {
  const seen = [...tabs.values()].some(Boolean);
  if (seen && !stream) listen();
  if (!seen && stream) {
    stream.close();
    stream = null;
    last = null;
  }
}

self.onconnect = (event) => {
  const tab = event.ports[0];
  tab.onmessage = (message) => {
    if (message.data === "bye") tabs.delete(tab);
    else tabs.set(tab, message.data === "seen");
    settle();
  };
  if (last) tab.postMessage(last);
};
