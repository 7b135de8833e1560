// Tail indexes the newest events in memory until tables.ts writes them: each term has the positions
// of its events in the tail.
import type { NewEvent } from '../../../wire/events.ts';
import { formatOrigin } from '../rules.ts';

export type IndexColumn = 'task_id' | 'root_task_id' | 'agent' | 'tool' | 'event' | 'run_id';
export type TailFilter = { column: IndexColumn; value: string };

/** Number of events in a full tail. Positions in it are stored in 16 bits. */
export const TAIL_EVENTS_MAX = 4_096;

type Lists = Map<string, number[]>;

export class Tail {
  /** The seq of its first event. */
  readonly first: number;
  readonly idHashes: number[] = [];
  /** The highest source number of each origin. */
  readonly sources = new Map<string, number>();
  readonly #lists: Record<IndexColumn, Lists> = {
    task_id: new Map(),
    root_task_id: new Map(),
    agent: new Map(),
    tool: new Map(),
    event: new Map(),
    run_id: new Map(),
  };
  /** The lists of each kind's prefixes: `tool`, `tool.call`, `tool.call.ended`. */
  readonly #kinds = new Map<string, number[][]>();

  constructor(first: number) {
    this.first = first;
  }

  get count(): number {
    return this.idHashes.length;
  }

  get isFull(): boolean {
    return this.count >= TAIL_EVENTS_MAX;
  }

  /** Adds the log's next event. Must agree with `matchesFilter` in rules.ts. */
  add(event: NewEvent): void {
    const place = this.count;
    const { task_id, root_task_id, agent, tool, run_id } = event;
    this.idHashes.push(hashId(event.id));
    this.sources.set(formatOrigin(event), event.source_seq);
    for (const list of this.#getKindLists(event.event)) list.push(place);
    if (root_task_id !== undefined) this.#getList('root_task_id', root_task_id).push(place);
    if (task_id !== undefined) {
      this.#getList('task_id', task_id).push(place);
      if (task_id !== root_task_id) this.#getList('root_task_id', task_id).push(place);
    }
    if (agent !== undefined) this.#getList('agent', agent).push(place);
    if (tool !== undefined) this.#getList('tool', tool).push(place);
    if (run_id !== undefined) this.#getList('run_id', run_id).push(place);
  }

  #getList(column: IndexColumn, value: string): number[] {
    let list = this.#lists[column].get(value);
    if (list === undefined) {
      list = [];
      this.#lists[column].set(value, list);
    }
    return list;
  }

  #getKindLists(kind: string): number[][] {
    let lists = this.#kinds.get(kind);
    if (lists === undefined) {
      const segments = kind.split('.');
      lists = segments.map((_, n) => this.#getList('event', segments.slice(0, n + 1).join('.')));
      this.#kinds.set(kind, lists);
    }
    return lists;
  }

  *terms(): Generator<TailFilter & { places: readonly number[] }> {
    for (const [column, lists] of Object.entries(this.#lists) as [IndexColumn, Lists][])
      for (const [value, places] of lists) yield { column, value, places };
  }

  /** Returns the positions of the events that match every condition, in order. */
  find(where: readonly TailFilter[]): number[] {
    return where
      .map(({ column, value }) => this.#lists[column].get(value) ?? [])
      .reduce((all, some) => intersect(all, some));
  }

  /** Returns the seqs of the events whose id has one of these hashes. */
  findIds(hashes: ReadonlySet<number>): number[] {
    return this.idHashes.flatMap((hash, place) => (hashes.has(hash) ? [this.first + place] : []));
  }
}

/** Intersects two sorted lists. */
export function intersect(a: ArrayLike<number>, b: ArrayLike<number>): number[] {
  const both: number[] = [];
  for (let i = 0, k = 0; i < a.length && k < b.length; ) {
    if (a[i]! < b[k]!) i++;
    else if (a[i]! > b[k]!) k++;
    else {
      both.push(a[i]!);
      i++;
      k++;
    }
  }
  return both;
}

/** 32 bits suffice: a lookup reads the event, so a collision costs one more read. */
export function hashId(id: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
