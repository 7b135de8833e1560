// Names of tools and ids of calls as the vendors accept them: letters, digits, _ and -, up to a
// length. One table per request, so that `task.delegate` goes out as `task_delegate` and comes back
// as itself.
import type { Message, ToolSpec } from '../../../wire/modeld.ts';

export type NameTable = { toWire(name: string): string; toName(wire: string): string };

const PLAIN = /^[a-zA-Z0-9_-]+$/;

/** The same names in the same order give the same table, so that prompt caches keep matching. */
export function makeNameTable(names: Iterable<string>, lengthMax: number): NameTable {
  const wireNames = new Map<string, string>();
  const ownNames = new Map<string, string>();
  const isPlain = (name: string) => name.length <= lengthMax && PLAIN.test(name);
  const claim = (name: string, wire: string): string => {
    wireNames.set(name, wire);
    ownNames.set(wire, name);
    return wire;
  };
  const findFree = (name: string): string => {
    const base = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, lengthMax);
    let wire = base;
    for (let n = 2; ownNames.has(wire); n++) {
      wire = `${base.slice(0, lengthMax - 1 - String(n).length)}_${n}`;
    }
    return wire;
  };
  const toWire = (name: string): string => {
    const known = wireNames.get(name);
    if (known !== undefined) return known;
    return claim(name, isPlain(name) && !ownNames.has(name) ? name : findFree(name));
  };
  // Names that are fine as they are go first: no changed name may take their place.
  const all = [...names];
  for (const name of all) if (isPlain(name)) claim(name, name);
  for (const name of all) toWire(name);
  // A name that no tool has is the model's invention and goes back as it came.
  return { toWire, toName: (wire) => ownNames.get(wire) ?? wire };
}

/** What readers need to give a request's own words back. */
export type WireNames = {
  tools: NameTable;
  callIds: NameTable;
  model: string;
  /** Who answers, for messages to people. */
  provider: string;
};

export function makeWireNames(
  request: { messages: Message[]; tools: ToolSpec[] },
  options: { model: string; provider: string; toolLengthMax: number; callIdLengthMax: number },
): WireNames {
  const toolNames = request.tools.map((tool) => tool.name);
  const callIds: string[] = [];
  for (const { parts } of request.messages) {
    for (const part of parts) {
      if (part.type === 'tool_call') {
        toolNames.push(part.name);
        callIds.push(part.id);
      } else if (part.type === 'tool_result') callIds.push(part.tool_call_id);
    }
  }
  return {
    tools: makeNameTable(toolNames, options.toolLengthMax),
    callIds: makeNameTable(callIds, options.callIdLengthMax),
    model: options.model,
    provider: options.provider,
  };
}

const IDENTITY: NameTable = { toWire: (name) => name, toName: (wire) => wire };

/** For answers to a body that a client wrote itself: nothing was renamed. */
export function unchangedNames(model: string, provider: string): WireNames {
  return { tools: IDENTITY, callIds: IDENTITY, model, provider };
}
