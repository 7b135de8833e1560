// Templates of rows and events: texts with holes for ids, numbers and times, from which copies are
// made that differ from the original and from each other as real ones do.
import type { SQLInputValue } from 'node:sqlite';
import { manualClock } from '../../src/platform/clock.ts';
import { makeIdMaker } from '../../src/platform/ids.ts';

const ID = /\b([a-z]+)_[0-9a-z]{26}\b/g;
/** Times in ms are later than this, and no other number is. */
const TIME_MS_MIN = 1_000_000_000_000;
/** A call's id ends with that much of its run's id. */
const CALL_TAIL = 20;

/**
 * One copy of everything in a template: the ids, and hashes of texts, that replace the original
 * ones, and its time.
 */
export type Copy = { ids: ReadonlyMap<string, string>; shiftMs: number };
/** Makes the text or value of a copy. */
export type CopyTemplate<T> = (copy: Copy) => T;

export const findIds = (text: string): string[] => text.match(ID) ?? [];

/** Returns a function that makes fresh ids for these, in the same order. */
export function makeCopies(ids: Iterable<string>): (nowMs: number, shiftMs: number) => Copy {
  const sorted = [...new Set(ids)].sort((a, b) => (a.slice(-26) < b.slice(-26) ? -1 : 1));
  const runs = new Map(
    sorted.filter((id) => id.startsWith('run_')).map((id) => [id.slice(-CALL_TAIL), id]),
  );
  const clock = manualClock(0);
  const newId = makeIdMaker(clock);
  return (nowMs, shiftMs) => {
    clock.advance(nowMs + shiftMs - clock.nowMs());
    const made = new Map<string, string>();
    for (const id of sorted)
      if (!id.startsWith('call_')) made.set(id, newId(id.slice(0, id.indexOf('_'))));
    for (const id of sorted)
      if (id.startsWith('call_')) {
        const run = runs.get(id.slice(-CALL_TAIL));
        const tail = run === undefined ? newId<string>('x') : made.get(run)!;
        made.set(id, id.slice(0, -CALL_TAIL) + tail.slice(-CALL_TAIL));
      }
    return { ids: made, shiftMs };
  };
}

export function makeTextTemplate(text: string): CopyTemplate<string> {
  const ids = findIds(text);
  if (ids.length === 0) return () => text;
  if (ids.length === 1 && ids[0] === text) return ({ ids }) => ids.get(text) ?? text;
  const between = text.split(/\b[a-z]+_[0-9a-z]{26}\b/);
  return ({ ids: made }) => {
    let copy = between[0]!;
    for (let i = 0; i < ids.length; i++) copy += (made.get(ids[i]!) ?? ids[i]!) + between[i + 1]!;
    return copy;
  };
}

const HASH_BYTES = 32;
const HASH = /^[0-9a-f]{64}$/;

export function makeValueTemplate(value: SQLInputValue): CopyTemplate<SQLInputValue> {
  if (typeof value === 'string' && HASH.test(value)) return ({ ids }) => ids.get(value) ?? value;
  if (value instanceof Uint8Array) return makeHashesTemplate(Buffer.from(value));
  if (typeof value === 'string') return makeTextTemplate(value);
  if (typeof value === 'number' && value > TIME_MS_MIN) return ({ shiftMs }) => value + shiftMs;
  return () => value;
}

/** A context is a list of hashes. */
function makeHashesTemplate(list: Buffer): CopyTemplate<SQLInputValue> {
  const hashes: string[] = [];
  for (let at = 0; at < list.length; at += HASH_BYTES)
    hashes.push(list.toString('hex', at, at + HASH_BYTES));
  return ({ ids }) => Buffer.from(hashes.map((hash) => ids.get(hash) ?? hash).join(''), 'hex');
}
