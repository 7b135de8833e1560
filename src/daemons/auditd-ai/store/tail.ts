// The newest events of the log as the index has them before they are in its tables: which term has
// which events, by their place in the tail. Writing it down is left to tables.ts.
import type { NewEvent } from '../../../wire/events.ts';
import { originOf } from '../rules.ts';

/** What events are found by. */
export type IndexColumn = 'task_id' | 'root_task_id' | 'agent' | 'tool' | 'event' | 'run_id';
export type TailFilter = { column: IndexColumn; value: string };

/** A tail of so many events is full. Places in it are kept in 16 bits. */
export const TAIL_EVENTS_MAX = 4_096;

type Lists = Map<string, number[]>;

export class Tail {
  /** The number of its first event. */
  readonly first: number;
  /** The hash of each event's id. */
  readonly idHashes: number[] = [];
  /** The highest number from each origin. */
  readonly sources = new Map<string, number>();
  readonly #lists: Record<IndexColumn, Lists> = {
    task_id: new Map(),
    root_task_id: new Map(),
    agent: new Map(),
    tool: new Map(),
    event: new Map(),
    run_id: new Map(),
  };
  /** For each kind the lists of its words: `tool`, `tool.call`, `tool.call.ended`. */
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

  /** The next event of the log, found by what a follower's filter wants (`wants` in rules.ts). */
  add(event: NewEvent): void {
    const place = this.count;
    const { task_id, root_task_id, agent, tool, run_id } = event;
    this.idHashes.push(hashOf(event.id));
    this.sources.set(originOf(event), event.source_seq);
    for (const list of this.#listsOfKind(event.event)) list.push(place);
    if (root_task_id !== undefined) this.#listOf('root_task_id', root_task_id).push(place);
    if (task_id !== undefined) {
      this.#listOf('task_id', task_id).push(place);
      if (task_id !== root_task_id) this.#listOf('root_task_id', task_id).push(place);
    }
    if (agent !== undefined) this.#listOf('agent', agent).push(place);
    if (tool !== undefined) this.#listOf('tool', tool).push(place);
    if (run_id !== undefined) this.#listOf('run_id', run_id).push(place);
  }

  #listOf(column: IndexColumn, value: string): number[] {
    let list = this.#lists[column].get(value);
    if (list === undefined) {
      list = [];
      this.#lists[column].set(value, list);
    }
    return list;
  }

  #listsOfKind(kind: string): number[][] {
    let lists = this.#kinds.get(kind);
    if (lists === undefined) {
      const words = kind.split('.');
      lists = words.map((_, n) => this.#listOf('event', words.slice(0, n + 1).join('.')));
      this.#kinds.set(kind, lists);
    }
    return lists;
  }

  *terms(): Generator<TailFilter & { places: readonly number[] }> {
    for (const [column, lists] of Object.entries(this.#lists) as [IndexColumn, Lists][])
      for (const [value, places] of lists) yield { column, value, places };
  }

  /** The places of the events for which every condition holds, in order. */
  find(where: readonly TailFilter[]): number[] {
    return where
      .map(({ column, value }) => this.#lists[column].get(value) ?? [])
      .reduce((all, some) => intersect(all, some));
  }

  /** The numbers of the events whose id has one of these hashes. */
  findIds(hashes: ReadonlySet<number>): number[] {
    return this.idHashes.flatMap((hash, place) => (hashes.has(hash) ? [this.first + place] : []));
  }
}

/** What is in both; both are in order. */
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

/** 32 bits: whoever looks an id up reads the event, so a clash only costs reading one more. */
export function hashOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
