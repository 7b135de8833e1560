// Reads YAML strictly: the caller names the expected type of each value, and every mismatch becomes
// a problem with its line. Independent of screenplays.
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { formatSuggestion } from './did-you-mean.ts';
import type { ScreenplayProblem } from './types.ts';

/** A YAML value and its position in the file. */
export type YamlEntry = { readonly node: unknown; readonly offset: number };

export class YamlReader {
  readonly problems: ScreenplayProblem[] = [];
  readonly file: string;
  readonly root: YamlEntry;
  readonly #lineCounter = new LineCounter();
  readonly #document: Document;

  constructor(file: string, text: string) {
    this.file = file;
    this.#document = parseDocument(text, { lineCounter: this.#lineCounter, uniqueKeys: true });
    for (const error of this.#document.errors) {
      this.report(error.pos[0], error.message.split('\n')[0]!.replace(/ at line \d.*$/, ''));
    }
    this.root = this.#makeEntry(this.#document.contents, 0);
  }

  report(offset: number, message: string): void {
    this.problems.push({ file: this.file, line: this.#lineCounter.linePos(offset).line, message });
  }

  #makeEntry(node: unknown, offset: number): YamlEntry {
    const target = isAlias(node) ? node.resolve(this.#document) : node;
    const start = (node as { range?: [number, number, number] } | null)?.range?.[0];
    return { node: target, offset: start ?? offset };
  }

  /** Returns the fields of a mapping; an unknown key is reported with the nearest known one. */
  readFields(entry: YamlEntry, name: string, known: readonly string[]): Map<string, YamlEntry> {
    const fields = new Map<string, YamlEntry>();
    if (!isMap(entry.node)) {
      this.report(entry.offset, `${name} must be a mapping with some of: ${known.join(', ')}`);
      return fields;
    }
    for (const pair of entry.node.items) {
      const keyEntry = this.#makeEntry(pair.key, entry.offset);
      const key = isScalar(pair.key) ? String(pair.key.value) : '(not a plain key)';
      if (known.includes(key)) fields.set(key, this.#makeEntry(pair.value, keyEntry.offset));
      else
        this.report(
          keyEntry.offset,
          `unknown key "${key}" in ${name}; ${formatSuggestion(key, known)}`,
        );
    }
    return fields;
  }

  readList(entry: YamlEntry, name: string): YamlEntry[] {
    if (!isSeq(entry.node) || entry.node.items.length === 0) {
      this.report(entry.offset, `${name} must be a list with at least one entry`);
      return [];
    }
    return entry.node.items.map((item) => this.#makeEntry(item, entry.offset));
  }

  /** Accepts a list, or a single value in place of a list of one. */
  readListOrSingle(entry: YamlEntry, name: string): YamlEntry[] {
    return isSeq(entry.node) ? this.readList(entry, name) : [entry];
  }

  readString(entry: YamlEntry, name: string): string | undefined {
    if (isScalar(entry.node) && typeof entry.node.value === 'string' && entry.node.value !== '') {
      return entry.node.value;
    }
    this.report(entry.offset, `${name} must be a non-empty string`);
    return undefined;
  }

  readBoolean(entry: YamlEntry, name: string): boolean {
    if (isScalar(entry.node) && typeof entry.node.value === 'boolean') return entry.node.value;
    this.report(entry.offset, `${name} must be true or false`);
    return false;
  }

  readInteger(
    entry: YamlEntry,
    name: string,
    limits: { min: number; max: number },
  ): number | undefined {
    const value = isScalar(entry.node) ? entry.node.value : undefined;
    if (Number.isInteger(value) && Number(value) >= limits.min && Number(value) <= limits.max) {
      return Number(value);
    }
    this.report(entry.offset, `${name} must be an integer from ${limits.min} to ${limits.max}`);
    return undefined;
  }

  readChoice<T extends string>(entry: YamlEntry, name: string, known: readonly T[]): T | undefined {
    const value = isScalar(entry.node) ? String(entry.node.value) : '(not a string)';
    const choice = known.find((candidate) => candidate === value);
    if (choice === undefined) {
      this.report(entry.offset, `${name} cannot be "${value}"; ${formatSuggestion(value, known)}`);
    }
    return choice;
  }

  isString(entry: YamlEntry): boolean {
    return isScalar(entry.node) && typeof entry.node.value === 'string';
  }

  /** Returns the JavaScript value of an entry without a schema, such as a tool's arguments. */
  readPlainValue(entry: YamlEntry): unknown {
    const node = entry.node as { toJS?: (document: Document) => unknown } | null;
    return node?.toJS?.(this.#document) ?? null;
  }
}
