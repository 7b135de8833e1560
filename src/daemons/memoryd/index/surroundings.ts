// The records that a search looks at closely: the candidates, and those around them in their
// threads.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import { Entries, type IndexEntry } from './entries.ts';

/** Neighbours this near to a match are candidates too. */
const NEAR = 2;
/** How far the conversation around a candidate is looked at, on each side. */
export const REACH = 8;

export type Place = { ordinal: number; entry: IndexEntry; slot: number };
const SIDES = ['before', 'after'] as const;

export class Surroundings {
  /** By ordinal. */
  readonly places = new Map<number, Place>();
  readonly candidates = new Set<Place>();
  /** Slots of places by ordinal, plus one. */
  readonly slots: Int32Array;
  private readonly hidden = new Set<Place>();

  constructor(next: number) {
    this.slots = new Int32Array(next);
  }

  add(ordinal: number, entry: IndexEntry): Place {
    const place = { ordinal, entry, slot: this.places.size };
    this.places.set(ordinal, place);
    this.slots[ordinal] = place.slot + 1;
    return place;
  }

  async hideOthers(
    isVisible: (numbers: readonly number[]) => Promise<ReadonlySet<number>>,
  ): Promise<void> {
    const all = [...this.places.values()];
    const visible = await isVisible(all.map(({ entry }) => entry.number));
    for (const place of all) {
      if (visible.has(place.entry.number)) continue;
      this.hidden.add(place);
      this.candidates.delete(place);
    }
  }

  /** Runs of places that follow each other in a thread, without hidden ones. */
  chains(): Place[][] {
    const chains: Place[][] = [];
    for (const place of this.places.values()) {
      if (this.places.has(place.entry.before)) continue;
      const chain: Place[] = [];
      let next: Place | undefined = place;
      while (next !== undefined) {
        if (!this.hidden.has(next)) chain.push(next);
        next = this.places.get(next.entry.after);
      }
      chains.push(chain);
    }
    return chains;
  }
}

/** Loads candidates, their neighbours, and what is around those. */
export async function loadSurroundings(
  sql: Sql,
  scope: ScopeRow,
  ordinals: readonly number[],
): Promise<Surroundings> {
  const surroundings = new Surroundings(scope.next);
  const entries = new Entries(sql, scope.id);
  await entries.load(ordinals, NEAR + REACH);
  const placeOf = async (ordinal: number): Promise<Place | undefined> => {
    const entry = await entries.get(ordinal);
    return entry && surroundings.add(ordinal, entry);
  };
  for (const ordinal of ordinals) {
    const place = surroundings.places.get(ordinal) ?? (await placeOf(ordinal));
    if (place === undefined) continue;
    surroundings.candidates.add(place);
    for (const side of SIDES) {
      let near: Place | undefined = place;
      for (let steps = 1; steps <= NEAR + REACH; steps++) {
        const next: number = near.entry[side];
        if (next === 0) break;
        near = surroundings.places.get(next) ?? (await placeOf(next));
        if (near === undefined) break;
        if (steps <= NEAR) surroundings.candidates.add(near);
      }
    }
  }
  return surroundings;
}
