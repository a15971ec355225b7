// A reader of streambpe's event log (docs/event-log.md) in plain JavaScript, for browsers and Node.
//
//     const log = StreambpeReader.readLog(text);                      // the text of model.events.jsonl
//     const model = new StreambpeReader.Model(log, splitting);
//     model.encode("in the end")             -> [259, 1042, 88]       ids, as Tokenizer.encode_ordinary
//     model.encode("a<|end|>", true)         -> [97, 32000]           special tokens count as such
//     model.decode([259, 1042, 88])          -> bytes (Uint8Array)
//     model.nodes("in the end")              -> the tokens with the events that made each
//
// `splitting` says how text is cut into chunks. `streambpe report` writes it (streambpe/inspect/playground.py):
// with every class of characters spelled out, because a browser's own Unicode tables may be of another version.
// Slow and plain, as streambpe/model/replay.py is: meant to be read, and for texts that a person types.
"use strict";
const StreambpeReader = (() => {
  const UNKNOWN = -1; // a symbol outside the alphabet; no event speaks of it
  const pairKey = (left, right) => left * 2 ** 26 + right;

  class LogError extends Error {}

  // -------------------------------------------------------------------------------------------------------
  // the log

  // Text of a log -> {header, events, eventLines}. Refuses another version, a cut file, and fields that are missing.
  function readLog(text) {
    if (!text.endsWith("\n")) throw new LogError("the log does not end with a line feed: it was cut");
    const end = text.indexOf("\n");
    const header = JSON.parse(text.slice(0, end));
    if (header.format !== "streambpe-events" || (header.version !== 1 && header.version !== 2))
      throw new LogError(`format ${header.format}, version ${header.version}: this reader knows streambpe-events 1 and 2`);
    if (header.version === 2 && !Array.isArray(header.free)) throw new LogError("the header does not say which ids are free");
    const eventLines = text.slice(end + 1);
    const events = eventLines.split("\n").slice(0, -1).map((line, i) => {
      const event = JSON.parse(line);
      const joins = event.op === "merge" || event.op === "supermerge";
      const fields = joins ? [event.left, event.right, event.id] : [event.id, ...event.into];
      if ((!joins && event.op !== "delete") || !fields.every(Number.isSafeInteger))
        throw new LogError(`line ${i + 2} is no event: ${line.slice(0, 80)}`);
      return event;
    });
    if (events.length !== header.events.count)
      throw new LogError(`the header promises ${header.events.count} events, and there are ${events.length}`);
    return {header, events, eventLines};
  }

  // Whether the events are those that the header's digest is of; null where the browser cannot tell.
  async function isIntact(log) {
    if (!globalThis.crypto?.subtle) return null;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(log.eventLines));
    const hex = [...new Uint8Array(digest)].map(byte => byte.toString(16).padStart(2, "0")).join("");
    return hex === log.header.events.sha256;
  }

  // -------------------------------------------------------------------------------------------------------
  // characters

  // Text without half characters: a lone surrogate becomes U+FFFD, as in Python.
  const wellFormed = text =>
    text.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, found => (found.length === 2 ? found : "\ufffd"));

  // "1t,q,6,q" -> [[65, 90], [97, 122]]: gaps and lengths in base 36.
  function ranges(packed) {
    const found = [];
    let at = 0;
    const numbers = packed ? packed.split(",").map(part => parseInt(part, 36)) : [];
    for (let i = 0; i < numbers.length; i += 2) {
      const first = at + numbers[i];
      at = first + numbers[i + 1];
      found.push([first, at - 1]);
    }
    return found;
  }

  // A table of what begins where -> what stands at a code point.
  function lookUp(starts, values) {
    return point => {
      let low = 0, high = starts.length;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (starts[middle] <= point) low = middle;
        else high = middle;
      }
      return values[low];
    };
  }

  // Starts as gaps in base 36, and values: how tables of characters are packed.
  function table(packed) {
    let at = 0;
    const starts = packed.gaps.split(",").map(gap => (at += parseInt(gap, 36)));
    return lookUp(starts, packed.values.split(",").map(value => parseInt(value, 36)));
  }

  // SCRIPT's table: groups of characters (group 0: outside the table), and two symbols for each character.
  class Characters {
    constructor(packed) {
      this.groupOf = table(packed);
      this.groups = packed.groups; // {block: symbol of its first block, moved: points that come first, ...}
      this.indexSymbols = packed.indexSymbols;
      this.firstEscape = packed.firstEscape;
      this.symbolsOf = new Map();
      this.characterOf = new Map();
      const members = this.groups.map(group => [...group.moved]);
      const moved = new Set(this.groups.flatMap(group => group.moved));
      for (let point = 0; point < 0x110000; point++) {
        const group = this.groupOf(point);
        if (group && !moved.has(point)) members[group].push(point);
      }
      members.forEach((points, group) => {
        if (!group) return;
        points.forEach((point, i) => {
          const block = this.groups[group].block + Math.floor(i / this.indexSymbols);
          const index = (i % this.indexSymbols) + 1;
          this.symbolsOf.set(point, [block, index]);
          this.characterOf.set(pairKey(block, index), point);
        });
      });
    }
  }

  // -------------------------------------------------------------------------------------------------------
  // text to chunks

  class Splitter {
    constructor(splitting) {
      this.how = splitting;
      const classes = (splitting.classes || []).map(packed =>
        ranges(packed).map(([a, b]) => `\\u{${a.toString(16)}}-\\u{${b.toString(16)}}`).join(""));
      const compile = source =>
        source && new RegExp(source.map(part => (typeof part === "number" ? classes[part] : part)).join(""), "gu");
      this.expression = compile(splitting.source);
      this.characters = splitting.characters ? new Characters(splitting.characters) : null;
      if (splitting.runs) {
        this.scriptOf = table(splitting.runs);
        this.spacelessExpression = compile(splitting.runs.source);
      }
      for (const [before, after] of splitting.nfcProbe || [])
        if (before.normalize("NFC") !== after)
          throw new LogError("the model normalises to NFC of Unicode 16, and this browser's tables are older");
    }

    // What the model does to text first: --unencodable, then --normalize.
    prepare(text) {
      const {unencodable, normalize} = this.how;
      if (unencodable === "bytes" && normalize === "none") return text;
      let done = "", stretch = "";
      const close = () => {
        done += normalize === "nfc" ? stretch.normalize("NFC") : stretch;
        stretch = "";
      };
      for (const character of text) {
        if (this.characters.groupOf(character.codePointAt(0))) {
          stretch += character;
          continue;
        }
        // A character outside the table is left out, or stays and composes with nothing.
        if (unencodable === "error") throw new LogError(`the model cannot encode U+${hexOf(character)}`);
        if (unencodable === "drop") continue;
        close();
        done += character;
      }
      close();
      return done;
    }

    split(text) {
      const ready = this.prepare(wellFormed(text));
      if (!ready) return [];
      if (this.how.kind === "whole") return [ready];
      if (this.how.kind === "words") return this.words(ready);
      if (this.how.kind === "script") return this.scriptChunks(ready);
      if (!this.scriptOf) return this.matches(this.expression, ready);
      return this.scriptRuns(ready).flatMap(([run, spaceless]) =>
        this.matches(spaceless ? this.spacelessExpression : this.expression, run));
    }

    matches(expression, text) {
      const chunks = [];
      let at = 0;
      for (const match of text.matchAll(expression)) {
        if (this.how.gaps && match.index > at) chunks.push(text.slice(at, match.index));
        chunks.push(match[0]);
        at = match.index + match[0].length;
      }
      if (this.how.gaps && at < text.length) chunks.push(text.slice(at));
      return chunks;
    }

    words(text) {
      const spaces = new Set(this.how.spaces), found = [];
      let word = "";
      for (const character of text + this.how.spaces[0]) {
        if (!spaces.has(character)) word += character;
        else if (word) {
          found.push(this.how.mark + word);
          word = "";
        }
      }
      return found;
    }

    // Groups of characters, joined by rules: see streambpe/text/script_rules.py.
    scriptChunks(text) {
      const parts = [], chunks = [];
      for (const character of text) {
        const group = this.characters.groupOf(character.codePointAt(0)), last = parts[parts.length - 1];
        if (last && last.group === group) last.text += character;
        else parts.push({text: character, group});
      }
      const groups = this.characters.groups;
      let i = 0;
      while (i + 1 < parts.length) {
        let {text: chunk, group} = parts[i++];
        if (chunk === " " && groups[parts[i].group].takesSpace) {
          chunk += parts[i].text;
          group = parts[i++].group;
        }
        const goesOn = other => groups[other].inherited || other === group || groups[other].twin === group;
        while (i < parts.length && goesOn(parts[i].group)) chunk += parts[i++].text;
        chunks.push(chunk);
      }
      return [...chunks, ...parts.slice(i).map(part => part.text)];
    }

    // Where the script changes: see streambpe/text/script_runs.py. Codes: 0 common, 1 unknown, 2 inherited, 3... scripts.
    scriptRuns(text) {
      const spaceless = new Set(this.how.runs.spaceless), runs = [];
      let start = 0, current = -1, last = 0, at = 0;
      for (const character of text) {
        const script = this.scriptOf(character.codePointAt(0)), next = at + character.length;
        if (script === current) last = next;
        else if (script === 2) {
          if (current < 0) current = script;
          last = next;
        } else if (script < 2) {
          if (current < 0) current = 0;
        } else {
          if (current >= 3) {
            runs.push([text.slice(start, last), spaceless.has(current)]);
            start = last;
          }
          current = script;
          last = next;
        }
        at = next;
      }
      return [...runs, [text.slice(start), spaceless.has(current)]];
    }
  }

  const hexOf = character => character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

  // -------------------------------------------------------------------------------------------------------
  // bytes, held as strings of characters 0 to 255

  const utf8 = text => String.fromCharCode(...new TextEncoder().encode(text));
  const fromHex = hex => hex.replace(/../g, two => String.fromCharCode(parseInt(two, 16)));

  const bytesOf = held => Uint8Array.from(held, byte => byte.charCodeAt(0));
  const symbolsIn = content => content.match(/[^]{2}/g).map(two => two.charCodeAt(0) * 256 + two.charCodeAt(1));

  function longUtf8(text) {
    let found = "";
    for (const character of text) found += utf8(character);
    return found;
  }

  // -------------------------------------------------------------------------------------------------------
  // the model

  class Model {
    constructor(log, splitting) {
      const {header, events} = log;
      this.header = header;
      this.events = events;
      this.splitter = new Splitter(splitting);
      this.kind = header.alphabet.kind;
      if (!["gpt2", "bytes", "utf8", "seen", "chars", "script"].includes(this.kind))
        throw new LogError(`base symbols of kind ${this.kind}: this reader does not know them`);
      this.first = header.alphabet.first_id;
      this.contents = []; // of each log id, from the first on
      this.idOf = new Map(); // content -> log id, of symbols and learned tokens
      this.stopIds = new Map(); // chunk in UTF-8 -> log id
      this.living = new Set(); // log ids, oldest latest birth first
      this.merges = new Map(); // pair -> growing event indices
      this.deletions = new Map(); // token -> growing event indices
      this.supermerges = new Map(); // pair -> its first event index
      this.learnAll();
      this.nameAll();
    }

    content(id) {
      return this.contents[id - this.first];
    }

    add(content) {
      this.contents.push(content);
      const id = this.first + this.contents.length - 1;
      this.living.add(id);
      return id;
    }

    learnAll() {
      const alphabet = this.header.alphabet;
      const number = n => String.fromCharCode(n >> 8, n & 255);
      const symbols = alphabet.symbols
        ? alphabet.symbols.map(fromHex)
        : Array.from({length: alphabet.size}, (_, i) => number(this.first + i));
      for (const symbol of symbols) this.idOf.set(symbol, this.add(symbol));
      for (const word of this.header.stop_words) this.stopIds.set(fromHex(word.bytes), this.add(fromHex(word.bytes)));
      this.stops = new Set(this.stopIds.values());
      const append = (map, key, index) => map.has(key) ? map.get(key).push(index) : map.set(key, [index]);
      this.events.forEach((event, index) => {
        if (event.op === "delete") {
          append(this.deletions, event.id, index);
          this.living.delete(event.id);
          return;
        }
        const left = this.content(event.left), right = this.content(event.right);
        if (left === undefined || right === undefined) throw new LogError(`event ${index} joins what does not exist`);
        const content = left + right;
        let id = this.idOf.get(content);
        if (id === undefined) {
          id = this.add(content);
          this.idOf.set(content, id);
        }
        if (id !== event.id) throw new LogError(`event ${index} makes token ${id}, not ${event.id}`);
        this.living.add(id); // one that lives keeps its place
        const key = pairKey(event.left, event.right);
        if (event.op === "merge") append(this.merges, key, index);
        else if (!this.supermerges.has(key)) this.supermerges.set(key, index);
      });
      // A deletion takes a token's id away, so a superword that spells this token does not form.
      for (const [key, index] of this.supermerges)
        if (!this.living.has(this.events[index].id)) this.supermerges.delete(key);
    }

    // Model ids: the living tokens without gaps, but for ids that are fixed.
    nameAll() {
      const {config, specials, reserved} = this.header;
      const order = [...this.living];
      if (config.token_order === "first-birth") order.sort((a, b) => a - b);
      const fixed = this.header.version === 2; // then special tokens have the ids that the header says
      const firstSpecial = config.specials_first ? this.first : this.first + order.length;
      this.specialIds = new Map(specials.map(({text, id}, i) => [text, fixed ? id : firstSpecial + i]));
      const taken = new Set(fixed || config.specials_first ? this.specialIds.values() : []);
      for (const [first, many] of fixed ? this.header.free : [])
        for (let id = first; id < first + many; id++) taken.add(id);
      let next = this.first;
      this.modelId = new Map();
      for (const id of order) {
        while (taken.has(next)) next++;
        this.modelId.set(id, next++);
      }
      this.logId = new Map([...this.modelId].map(([id, number]) => [number, id]));
      this.specialTexts = new Map([...this.specialIds].map(([text, id]) => [id, text]));
      this.vocabSize = order.length + specials.length + reserved;
    }

    // ---- encoding. A node is {id, event, from}: a log id here, the index of the event that made it (-1: none), and
    // the nodes that it was made of.

    // What a symbol outside the alphabet becomes: the unknown token, nothing, or an error.
    outside(character) {
      if (this.header.unk !== null) return [UNKNOWN];
      const option = this.kind === "script" ? "unencodable" : "unknown";
      if (this.header.config[option] === "drop") return [];
      throw new LogError(`U+${hexOf(character)} is not in the model's alphabet`);
    }

    symbols(chunk) {
      const found = [];
      for (const character of chunk) {
        if (this.kind === "script") {
          const two = this.splitter.characters.symbolsOf.get(character.codePointAt(0));
          const escapes = this.first + this.header.alphabet.size > this.splitter.characters.firstEscape;
          if (two) found.push(...two);
          else if (!escapes) found.push(...this.outside(character));
          else for (const byte of utf8(character)) found.push(byte.charCodeAt(0) + this.splitter.characters.firstEscape);
          continue;
        }
        const pieces = this.kind === "chars" ? [utf8(character)] : utf8(character);
        for (const piece of pieces) found.push(...(this.idOf.has(piece) ? [this.idOf.get(piece)] : this.outside(character)));
      }
      return found;
    }

    // One chunk: the smallest event above the last one used, everywhere in the chunk; and again.
    chunkNodes(chunk) {
      const stop = this.stopIds.get(longUtf8(chunk));
      if (stop !== undefined) return [{id: stop, event: -1, from: []}];
      let nodes = this.symbols(chunk).map(id => ({id, event: -1, from: []})), last = -1;
      const next = (list, best) => {
        if (list) for (const index of list) if (index > last) return index < best ? index : best;
        return best;
      };
      for (;;) {
        let best = Infinity;
        for (let i = 0; i < nodes.length; i++) {
          if (i + 1 < nodes.length && nodes[i].id >= 0 && nodes[i + 1].id >= 0)
            best = next(this.merges.get(pairKey(nodes[i].id, nodes[i + 1].id)), best);
          best = next(this.deletions.get(nodes[i].id), best);
        }
        if (best === Infinity) return nodes;
        const event = this.events[best];
        nodes = event.op === "delete" ? this.undo(nodes, event, best) : this.join(nodes, event, best);
        last = best;
      }
    }

    // Every pair of an event, from left to right: aaa -> aa a.
    join(nodes, event, index) {
      const found = [];
      for (let i = 0; i < nodes.length; i++) {
        if (nodes[i].id === event.left && i + 1 < nodes.length && nodes[i + 1].id === event.right) {
          found.push({id: event.id, event: index, from: [nodes[i], nodes[i + 1]]});
          i++;
        } else found.push(nodes[i]);
      }
      return found;
    }

    undo(nodes, event, index) {
      return nodes.flatMap(node =>
        node.id === event.id ? event.into.map(id => ({id, event: index, from: [node]})) : [node]);
    }

    // Runs of neighbouring chunks that are one token each make superwords, the smallest index first.
    joinRun(run) {
      for (;;) {
        let best = Infinity;
        for (let i = 0; i + 1 < run.length; i++) {
          if (run[i].id < 0 || run[i + 1].id < 0) continue;
          const index = this.supermerges.get(pairKey(run[i].id, run[i + 1].id));
          if (index !== undefined && index < best) best = index;
        }
        if (best === Infinity) return run;
        run = this.join(run, this.events[best], best);
      }
    }

    // The tokens of a text. With `specials`, text that spells a special token is it: {special: its model id}.
    nodes(text, specials = false) {
      if (!specials || !this.specialIds.size) return this.ordinaryNodes(text);
      const texts = [...this.specialIds.keys()].filter(Boolean).sort((a, b) => [...b].length - [...a].length);
      const found = [];
      let from = 0, at = 0;
      while (at < text.length) {
        const special = texts.find(one => text.startsWith(one, at));
        if (special === undefined) {
          at++;
          continue;
        }
        found.push(...this.ordinaryNodes(text.slice(from, at)), {special: this.specialIds.get(special)});
        from = at = at + special.length;
      }
      return [...found, ...this.ordinaryNodes(text.slice(from))];
    }

    ordinaryNodes(text) {
      const found = [];
      let run = [];
      const close = () => {
        for (const node of this.joinRun(run)) found.push(node);
        run = [];
      };
      for (const chunk of this.splitter.split(text)) {
        const nodes = this.chunkNodes(chunk);
        if (nodes.length === 1 && !this.stops.has(nodes[0].id)) run.push(nodes[0]);
        else {
          close();
          found.push(...nodes);
        }
      }
      close();
      return found;
    }

    // The model id of a node.
    idOfNode(node) {
      if (node.special !== undefined) return node.special;
      if (node.id === UNKNOWN) return this.specialIds.get(this.header.unk);
      if (!this.modelId.has(node.id)) throw new LogError(`the text encodes to token ${node.id}, which was deleted`);
      return this.modelId.get(node.id);
    }

    encode(text, specials = false) {
      return this.nodes(text, specials).map(node => this.idOfNode(node));
    }

    // Events that led to a node, in order.
    history(node) {
      const seen = new Set(), indices = new Set(), left = [node];
      while (left.length) {
        const one = left.pop();
        if (seen.has(one)) continue;
        seen.add(one);
        if (one.event >= 0) indices.add(one.event);
        left.push(...(one.from || []));
      }
      return [...indices].sort((a, b) => a - b);
    }

    // ---- decoding

    // The bytes of a log id. A SCRIPT symbol that makes no character becomes U+FFFD.
    contentBytes(id) {
      const content = this.content(id);
      const isText = this.kind !== "script" || this.stops.has(id);
      return bytesOf(isText ? content : this.scriptBytes(symbolsIn(content)));
    }

    // Ids -> bytes. A SCRIPT symbol that makes no character becomes U+FFFD.
    decode(ids) {
      let found = "", symbols = [];
      const close = () => {
        found += this.scriptBytes(symbols);
        symbols = [];
      };
      for (const id of ids) {
        const log = this.logId.get(id), special = this.specialTexts.get(id);
        if (log === undefined && special === undefined) throw new LogError(`id ${id} stands for no text`);
        if (this.kind === "script" && special === undefined && !this.stops.has(log)) {
          symbols.push(...symbolsIn(this.content(log)));
          continue;
        }
        close();
        found += special !== undefined ? longUtf8(special) : this.content(log);
      }
      close();
      return bytesOf(found);
    }

    scriptBytes(symbols) {
      if (!symbols.length) return "";
      const {characterOf, firstEscape} = this.splitter.characters;
      let found = "";
      for (let i = 0; i < symbols.length; i++) {
        const point = characterOf.get(pairKey(symbols[i], symbols[i + 1]));
        if (symbols[i] >= firstEscape) found += String.fromCharCode(symbols[i] - firstEscape);
        else if (point === undefined) found += utf8("\ufffd");
        else {
          found += utf8(String.fromCodePoint(point));
          i++;
        }
      }
      return found;
    }
  }

  return {readLog, isIntact, Model, Splitter, LogError};
})();
if (typeof module !== "undefined") module.exports = StreambpeReader;
