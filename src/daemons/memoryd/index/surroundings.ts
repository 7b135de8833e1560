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
type Side = 'before' | 'after';

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

  /** The neighbours on one side, the nearest first. */
  beside(place: Place, side: Side, count: number): Place[] {
    const found: Place[] = [];
    let next = this.places.get(place.entry[side]);
    while (next !== undefined && found.length < count) {
      if (!this.hidden.has(next)) found.push(next);
      next = this.places.get(next.entry[side]);
    }
    return found;
  }
}

export async function loadSurroundings(
  sql: Sql,
  scope: ScopeRow,
  ordinals: readonly number[],
): Promise<Surroundings> {
  const surroundings = new Surroundings(scope.next);
  const entries = new Entries(sql, scope.id);
  const placeOf = async (ordinal: number): Promise<Place | undefined> => {
    const known = surroundings.places.get(ordinal);
    if (known !== undefined || ordinal === 0) return known;
    const entry = await entries.get(ordinal);
    return entry && surroundings.add(ordinal, entry);
  };
  for (const ordinal of ordinals) {
    const place = await placeOf(ordinal);
    if (place === undefined) continue;
    surroundings.candidates.add(place);
    for (const side of ['before', 'after'] as const) {
      let near = await placeOf(place.entry[side]);
      for (let steps = 1; near !== undefined && steps <= NEAR + REACH; steps++) {
        if (steps <= NEAR) surroundings.candidates.add(near);
        near = await placeOf(near.entry[side]);
      }
    }
  }
  return surroundings;
}
