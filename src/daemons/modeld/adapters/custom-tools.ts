// Tools that take free text (OpenAI calls them custom), for dialects that only have functions: one
// with the argument `input`. Its text is decoded again while it streams.
import type { RequestTool } from './model-request.ts';
import { asObject, asText, type JsonObject } from './reading.ts';

const INPUT_SCHEMA: JsonObject = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

/** Nothing enforces the grammar at the other provider, so the model has to read it. */
export function makeCustomTool(
  name: string,
  description: string,
  format: JsonObject | undefined,
): RequestTool {
  const grammar = asObject(format?.grammar) ?? format;
  const definition = asText(grammar?.definition);
  const rule =
    definition === undefined
      ? ''
      : `\n\ninput must match this grammar (${asText(grammar?.syntax) ?? 'unnamed'}):\n${definition}`;
  return {
    name,
    description: `${description}${rule}`,
    input_schema: INPUT_SCHEMA,
    custom: format === undefined ? {} : { format },
  };
}

export const makeCustomArguments = (input: string): JsonObject => ({ input });

/** Returns the text that a model wrote for such a tool, whatever form it chose. */
export function readCustomInput(args: JsonObject): string {
  return asText(args.input) ?? JSON.stringify(args);
}

const OPENING = /^\s*\{\s*"input"\s*:\s*"/;
/** Longer than any spelling of the opening. */
const OPENING_LENGTH_MAX = 64;
const ESCAPES: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

const isHighSurrogate = (text: string): boolean => /[\ud800-\udbff]$/.test(text);

/** Decodes the text of `{"input":"…"}` as it arrives, in pieces split anywhere. */
export class CustomInputDecoder {
  #state: 'opening' | 'inside' | 'over' = 'opening';
  /** The opening, an escape or half a surrogate pair that is not complete. */
  #pending = '';

  push(piece: string): string {
    if (this.#state === 'over') return '';
    const text = this.#pending + piece;
    this.#pending = '';
    if (this.#state === 'inside') return this.#decode(text);
    const opening = OPENING.exec(text);
    if (opening !== null) {
      this.#state = 'inside';
      return this.#decode(text.slice(opening[0].length));
    }
    // Another form than expected: the caller reads it whole at the end.
    if (text.trimStart().length > OPENING_LENGTH_MAX) this.#state = 'over';
    else this.#pending = text;
    return '';
  }

  #decode(text: string): string {
    let out = '';
    for (let at = 0; at < text.length; at++) {
      const letter = text[at]!;
      if (letter === '"') {
        this.#state = 'over';
        return out;
      }
      if (letter !== '\\') {
        out += letter;
        continue;
      }
      const length = text[at + 1] === 'u' ? 6 : 2;
      if (at + length > text.length) return this.#keep(out, text.slice(at));
      const code = text.slice(at + 1, at + length);
      out +=
        length === 6
          ? String.fromCharCode(Number.parseInt(code.slice(1), 16) || 0)
          : (ESCAPES[code] ?? code);
      at += length - 1;
    }
    return this.#keep(out, '');
  }

  /** Half a pair is not valid UTF-8, so it waits for its other half. */
  #keep(out: string, rest: string): string {
    if (!isHighSurrogate(out)) {
      this.#pending = rest;
      return out;
    }
    const half = out.slice(-1);
    this.#pending = `\\u${half.charCodeAt(0).toString(16)}${rest}`;
    return out.slice(0, -1);
  }
}
