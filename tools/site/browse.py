#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""browse.py SITE: looks at each page of the built site in a real browser, chromium without a screen: on a phone's width and
on a desk's nothing is wider than the window, every picture is drawn, and prose is no smaller than 12 pixels.

One page of its own loads the others into a frame, one after the other, and writes down what it finds.
"""
import functools
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

WIDTHS = (390, 820, 1280)
DRIVER = """<!doctype html><title>driver</title><pre id="found"></pre><script>
const told = [];
const frame = document.createElement("iframe");
frame.style.border = 0;
document.body.append(frame);
function name(e) { return e.tagName.toLowerCase() + (e.className ? "." + String(e.className).split(" ")[0] : ""); }
function within(e, content) {  // whether something around it scrolls or hides what is too wide
  for (let p = e.parentElement; p && p.tagName != "BODY" && p != content; p = p.parentElement)
    if (frame.contentWindow.getComputedStyle(p).overflowX != "visible") return true;
  return false;
}
function look(page, width) {
  const page_window = frame.contentWindow, root = frame.contentDocument.documentElement;
  if (!frame.contentDocument.body || !frame.contentDocument.title) { told.push(`${page}: did not load`); return; }
  const content = frame.contentDocument.querySelector(".content");  // it scrolls by itself where it is too wide
  if (root.scrollWidth > width || (content && content.scrollWidth > content.clientWidth)) {
    const wide = [...(content || frame.contentDocument.body).querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > width + 1 && !within(e, content));
    told.push(`${page}: wider than ${width} pixels: ` + wide.slice(-2).map(e => `${name(e)} '${e.textContent.trim().replaceAll(/\\s+/g, " ").slice(0, 40)}'`).join(", "));
  }
  for (const picture of frame.contentDocument.images)
    if (!picture.complete || !picture.naturalWidth) told.push(`${page}: the picture ${picture.src} is not drawn`);
  const prose = frame.contentDocument.querySelector("article p, body > p");
  if (prose && parseFloat(page_window.getComputedStyle(prose).fontSize) < 12) told.push(`${page}: prose is small`);
}
(async () => {
  for (const width of WIDTHS) {
    frame.style.width = width + "px"; frame.style.height = "900px";
    for (const page of PAGES) {
      await new Promise(done => { frame.onload = done; frame.src = page; });
      look(page, width);
    }
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(told)});
})();
</script>"""


class Site(http.server.SimpleHTTPRequestHandler):
    found = None

    def do_GET(self):
        if self.path != "/driver.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.driver.encode())
        return None

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.server.found = json.loads(text)
        self.server.ended.set()

    def log_message(self, *_):
        pass


def driver(pages):
    return DRIVER.replace("WIDTHS)", json.dumps(WIDTHS) + ")").replace("PAGES)", json.dumps(pages) + ")")


def look(site, pages, seconds):
    """What is wrong with the pages; None if the browser did not get through them."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=site))
    server.driver, server.found, server.ended = driver(pages), None, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = urllib.parse.urlunsplit(("http", "%s:%d" % server.server_address, "/driver.html", "", ""))
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}",
             "--window-size=1400,1000", "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.ended.wait(seconds)
        browser.terminate()
        browser.wait()
    server.shutdown()
    return server.found


def main(site, wanted):
    if not shutil.which("chromium"):
        sys.exit("browse.py: no chromium; apt-get install chromium")
    pages = wanted or ["/" + f.relative_to(site).as_posix() for f in sorted(site.rglob("*.html"))]
    found = look(site, pages, 600)
    if found is None:
        sys.exit("browse.py: the browser did not end")
    print("\n".join(found) or f"site: {len(pages)} pages in chromium, {' and '.join(map(str, WIDTHS))} pixels wide, ok")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
