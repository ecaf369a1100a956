// Search in pages that are read from disk. Browsers start no workers there, so the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.waiting = []
      const load = address => new Promise(done => {
        const script = frame.contentDocument.createElement("script")
        script.src = address
        script.onload = done
        frame.contentDocument.body.appendChild(script)
      })
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(new URL(address, url))), Promise.resolve())
      load(new URL(url, location)).then(() => {
        const early = this.waiting
        this.waiting = null
        early.forEach(data => this.postMessage(data))
      })
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
  }
}
