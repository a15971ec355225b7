// A page that is opened from the disk may start no worker: the site's search then runs in a frame of the page.
if (location.protocol === "file:")
  window.Worker = class {
    constructor(address) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow, script = inside.document.createElement("script");
      const loaded = new Promise(done => script.addEventListener("load", done));
      inside.postMessage = data => this.onmessage?.({data});
      this.postMessage = data => loaded.then(() => inside.onmessage({data}));
      this.terminate = () => frame.remove();
      script.src = new URL(address, location.href);
      inside.document.body.append(script);
    }
  };
