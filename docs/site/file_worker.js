// A stand-in for Worker on pages that are opened from a file. Browsers refuse workers there, so the script of
// the theme's search runs in a hidden frame.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      // The worker's answers reach this page as events of this object, not of the frame's own window.
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.waiting = [];
      const script = this.inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
      this.inside.document.head.append(script);
    }

    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
      } else {
        this.inside.dispatchEvent(new MessageEvent("message", { data }));
      }
    }
  };
}
