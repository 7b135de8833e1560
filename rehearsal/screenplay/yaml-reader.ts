// Strict reading of YAML: every value is asked for by kind, and whatever is wrong becomes a problem
// with its line. Knows nothing of screenplays.
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { didYouMean } from './nearest.ts';
import type { Problem } from './types.ts';

/** A YAML value and where it stands. */
export type Spot = { readonly node: unknown; readonly offset: number };

export class YamlReader {
  readonly problems: Problem[] = [];
  readonly file: string;
  readonly root: Spot;
  readonly #lines = new LineCounter();
  readonly #document: Document;

  constructor(file: string, text: string) {
    this.file = file;
    this.#document = parseDocument(text, { lineCounter: this.#lines, uniqueKeys: true });
    for (const error of this.#document.errors) {
      this.report(error.pos[0], error.message.split('\n')[0]!.replace(/ at line \d.*$/, ''));
    }
    this.root = this.#spot(this.#document.contents, 0);
  }

  report(offset: number, message: string): void {
    this.problems.push({ file: this.file, line: this.#lines.linePos(offset).line, message });
  }

  #spot(node: unknown, offset: number): Spot {
    const target = isAlias(node) ? node.resolve(this.#document) : node;
    const start = (node as { range?: [number, number, number] } | null)?.range?.[0];
    return { node: target, offset: start ?? offset };
  }

  /** The fields of a mapping; keys that are not known are refused with the nearest known one. */
  readFields(spot: Spot, what: string, known: readonly string[]): Map<string, Spot> {
    const fields = new Map<string, Spot>();
    if (!isMap(spot.node)) {
      this.report(spot.offset, `${what} must be a mapping with some of: ${known.join(', ')}`);
      return fields;
    }
    for (const pair of spot.node.items) {
      const keySpot = this.#spot(pair.key, spot.offset);
      const key = isScalar(pair.key) ? String(pair.key.value) : '(not a plain key)';
      if (known.includes(key)) fields.set(key, this.#spot(pair.value, keySpot.offset));
      else this.report(keySpot.offset, `${what} has no "${key}"; ${didYouMean(key, known)}`);
    }
    return fields;
  }

  readList(spot: Spot, what: string): Spot[] {
    if (!isSeq(spot.node) || spot.node.items.length === 0) {
      this.report(spot.offset, `${what} must be a list with at least one entry`);
      return [];
    }
    return spot.node.items.map((item) => this.#spot(item, spot.offset));
  }

  /** A list, or one value that stands for a list of one. */
  readOneOrMore(spot: Spot, what: string): Spot[] {
    return isSeq(spot.node) ? this.readList(spot, what) : [spot];
  }

  readText(spot: Spot, what: string): string | undefined {
    if (isScalar(spot.node) && typeof spot.node.value === 'string' && spot.node.value !== '') {
      return spot.node.value;
    }
    this.report(spot.offset, `${what} must be a text that is not empty`);
    return undefined;
  }

  readTrue(spot: Spot, what: string): boolean {
    if (isScalar(spot.node) && typeof spot.node.value === 'boolean') return spot.node.value;
    this.report(spot.offset, `${what} must be true or false`);
    return false;
  }

  readInteger(spot: Spot, what: string, limits: { min: number; max: number }): number | undefined {
    const value = isScalar(spot.node) ? spot.node.value : undefined;
    if (Number.isInteger(value) && Number(value) >= limits.min && Number(value) <= limits.max) {
      return Number(value);
    }
    this.report(spot.offset, `${what} must be a whole number from ${limits.min} to ${limits.max}`);
    return undefined;
  }

  readOneOf<T extends string>(spot: Spot, what: string, known: readonly T[]): T | undefined {
    const value = isScalar(spot.node) ? String(spot.node.value) : '(not a word)';
    const found = known.find((word) => word === value);
    if (found === undefined) {
      this.report(spot.offset, `${what} cannot be "${value}"; ${didYouMean(value, known)}`);
    }
    return found;
  }

  isText(spot: Spot): boolean {
    return isScalar(spot.node) && typeof spot.node.value === 'string';
  }

  /** The plain JavaScript value of a part whose inside is free, such as a tool's arguments. */
  readFree(spot: Spot): unknown {
    const node = spot.node as { toJS?: (document: Document) => unknown } | null;
    return node?.toJS?.(this.#document) ?? null;
  }
}
