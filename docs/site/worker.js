// Search runs in a worker. A page that was opened from a folder may start none, so there an invisible frame takes its
// place: the same script, with messages in both directions.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>Search</title>";
      this.frame.onload = () => {
        this.frame.onload = null;
        const inside = this.frame.contentWindow;
        // Later and as a copy, as from a worker: what reads a message may send the next one.
        inside.postMessage = message => {
          const event = new MessageEvent("message", { data: structuredClone(message) });
          setTimeout(() => {
            this.onmessage?.(event);
            this.dispatchEvent(event);
          });
        };
        const script = inside.document.createElement("script");
        script.src = new URL(url, document.baseURI).href;
        script.onload = () => {
          this.ready = true;
          this.waiting.splice(0).forEach(data => this.postMessage(data));
        };
        inside.document.body.append(script);
      };
      // The theme's code stands at the end of the body.
      document.body.append(this.frame);
    }

    postMessage(data) {
      if (!this.ready) {
        this.waiting.push(data);
        return;
      }
      const inside = this.frame.contentWindow;
      const event = new inside.MessageEvent("message", { data: structuredClone(data) });
      setTimeout(() => inside.dispatchEvent(event));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
