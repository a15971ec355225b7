// The text of an element that was packed by streambpe/inspect/embedded.py: gzip, in base64.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
