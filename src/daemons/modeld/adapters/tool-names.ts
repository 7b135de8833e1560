// Maps tool names and call ids to names that the vendors accept (letters, digits, _ and -, up to a
// length) and back, with one table per request: `task.delegate` is sent as `task_delegate`.
import type { ToolSpec } from '../../../wire/modeld.ts';
import type { RequestMessage } from './model-request.ts';

export type NameTable = { toWire(name: string): string; toName(wire: string): string };

const PLAIN = /^[a-zA-Z0-9_-]+$/;

/** Equal names in equal order make equal tables, so that prompt caches keep matching. */
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
  // Valid names are claimed first, so that no changed name collides with them.
  const all = [...names];
  for (const name of all) if (isPlain(name)) claim(name, name);
  for (const name of all) toWire(name);
  // A name of no tool was invented by the model and stays unchanged.
  return { toWire, toName: (wire) => ownNames.get(wire) ?? wire };
}

/** The tables for reading the response to a request. */
export type WireNames = {
  tools: NameTable;
  callIds: NameTable;
  model: string;
  /** For error messages. */
  provider: string;
};

export function makeWireNames(
  request: { messages: RequestMessage[]; tools: ToolSpec[] },
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

/** For responses to a client's own body, in which nothing was renamed. */
export function unchangedNames(model: string, provider: string): WireNames {
  return { tools: IDENTITY, callIds: IDENTITY, model, provider };
}
