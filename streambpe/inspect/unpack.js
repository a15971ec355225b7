// What several scripts of the page use.
// The text of an element that was packed by streambpe/inspect/embedded.py: gzip, in base64.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
// Puts the text of a token into an element. Its blanks are drawn by the style sheet, as few fonts have the letter ␠.
function spaced(element, text) {
  text.split("␠").forEach((part, i) => {
    if (i) element.append(Object.assign(document.createElement("i"), {className: "blank", textContent: " "}));
    element.append(part);
  });
  return element;
}
