// Remembers texts: decides by policy whether they become memories now or proposals that wait for a
// person, stamps their labels, and replaces what they contradict.

import { toTimestamp } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryId, MemoryLink, NewMemory } from '../../../wire/memoryd/records.ts';
import type { About, Change, Operation, VersionContent } from '../journal/entry.ts';
import { assertNoSecrets, markPersonal } from '../rules/content.ts';
import { findLifetimeS } from '../rules/lifetime.ts';
import { filterMarks, stampLabels, uniteLabels } from '../rules/marks.ts';
import type { Commit } from '../store/commit.ts';
import { findMemory } from '../store/read.ts';
import type { Finder } from './finder.ts';
import type { Actor, Rights } from './rights.ts';
import type { StoredText, Texts } from './texts.ts';

export type RememberDeps = {
  commit: Commit;
  rights: Rights;
  finder: Finder;
  texts: Texts;
  newId: NewId;
  lifetimesS: Readonly<Record<string, number>>;
  /** Something expires that may be the next to do so. */
  onExpirySet(): void;
};
export type RememberOptions = {
  once?: IdempotencyKey | undefined;
  /** Only proposes, whatever policy would allow. */
  proposes?: boolean;
};

/** Resolves to the ids, in order. */
export type Remember = (
  actor: Actor,
  memories: readonly NewMemory[],
  options?: RememberOptions,
) => Promise<string[]>;

export function makeRemember(deps: RememberDeps): Remember {
  const { commit, texts, newId } = deps;
  return async (actor, given, { once, proposes = false } = {}) => {
    assertNoSecrets(given);
    const memories = given.map((memory) => ({
      ...memory,
      labels: uniteLabels(memory.labels ?? [], markPersonal(memory)),
    }));
    for (const memory of memories) assertTimes(memory);
    const proposed = await decideScopes(deps, actor, memories, proposes);
    const replaced = await checkReplaced(deps, actor, memories, proposed);
    const ids = memories.map(() => newId<MemoryId>('memory'));
    const changed = await texts.whileStored(
      memories.map(({ text }) => text),
      (stored) =>
        commit(async (sql, nowMs) => {
          const isProposal = (memory: NewMemory) => proposed.has(memory.scope);
          const links = await Promise.all(memories.map((memory) => linkReplaced(sql, memory)));
          const adds = memories.map((memory, i) =>
            toAdd(deps, {
              id: ids[i]!,
              memory,
              status: isProposal(memory) ? 'proposed' : 'active',
              nowMs,
              content: toContent(actor, memory, stored[i]!, links[i]!),
            }),
          );
          const ends = memories
            .filter((memory) => !isProposal(memory))
            .flatMap(({ supersedes = [] }) => supersedes);
          const op: Operation = proposes ? 'propose' : 'remember';
          return {
            op,
            by: actor.principal,
            run: toEntryRun(actor),
            changes: [...adds, ...endAll(ends)],
          };
        }, once),
    );
    const areKeptForEver = Object.keys(deps.lifetimesS).length === 0;
    if (!areKeptForEver || memories.some(({ expires_at: at }) => at !== undefined))
      deps.onExpirySet();
    // A repeated key resolves to the ids of the first time, which may include replaced ones.
    return changed.filter((id) => !replaced.has(id));
  };
}

const endAll = (ids: readonly MemoryId[]): Change[] =>
  [...new Set(ids)].map((id) => ({ do: 'end', id, status: 'superseded' }));

export const toEntryRun = ({ run }: Actor) =>
  run && {
    run_id: run.run_id,
    task_id: run.task_id,
    root_task_id: run.root_task_id,
    ...(run.call_id === undefined ? {} : { call_id: run.call_id }),
  };

function assertTimes({ valid_from: from, valid_to: to }: NewMemory): void {
  if (from !== undefined && to !== undefined && Date.parse(to) <= Date.parse(from))
    throw fault('bad_request', 'body valid_to: must be later than valid_from');
}

/** Resolves to the scopes where these are proposals. */
async function decideScopes(
  { rights }: RememberDeps,
  actor: Actor,
  memories: readonly NewMemory[],
  proposes: boolean,
): Promise<Set<string>> {
  const proposed = new Set<string>();
  for (const scope of new Set(memories.map((memory) => memory.scope))) {
    const marks = filterMarks(
      memories.filter((memory) => memory.scope === scope).flatMap(({ labels = [] }) => labels),
    );
    const decision = await rights.decide(actor, 'memory.write', scope, marks);
    const isForbidden = decision.answer === 'deny' && decision.rules.length > 0;
    // Who may read a scope may propose for it, unless a rule forbids it.
    const mayPropose = proposes && !isForbidden && (await rights.canRead(actor, scope));
    if (decision.answer === 'deny' && !mayPropose)
      throw await rights.deny(actor, 'memory.write', scope, decision);
    if (decision.answer !== 'allow' || proposes) proposed.add(scope);
  }
  return proposed;
}

/**
 * Who replaces a memory must be allowed to read and to write it; where policy asks, what replaces
 * it is a proposal too.
 */
async function checkReplaced(
  { rights, finder }: RememberDeps,
  actor: Actor,
  memories: readonly NewMemory[],
  proposed: Set<string>,
): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (const memory of memories)
    for (const id of memory.supersedes ?? []) {
      ids.add(id);
      const { scope } = await finder.findReadable(actor, id);
      const decision = await rights.decide(actor, 'memory.write', scope);
      if (decision.answer === 'deny')
        throw await rights.deny(actor, 'memory.write', scope, decision);
      if (decision.answer === 'ask') proposed.add(memory.scope);
    }
  return ids;
}

function linkReplaced(sql: Sql, { supersedes = [] }: NewMemory): Promise<MemoryLink[]> {
  return Promise.all(
    supersedes.map(async (id) => {
      const memory = await findMemory(sql, id);
      if (memory?.status !== 'active')
        throw fault('conflict', `${id} is ${memory?.status ?? 'gone'}, so it cannot be replaced`);
      return { kind: 'supersedes', id, version: Number(memory.version) };
    }),
  );
}

function toAdd(
  { lifetimesS }: RememberDeps,
  parts: {
    id: MemoryId;
    memory: NewMemory;
    status: 'active' | 'proposed';
    nowMs: number;
    content: VersionContent;
  },
): Change {
  const { id, memory, status, nowMs, content } = parts;
  const lifetimeS = findLifetimeS(lifetimesS, memory);
  const atEnd = lifetimeS === undefined ? undefined : toTimestamp(nowMs + lifetimeS * 1_000);
  const expiresAt = memory.expires_at ?? atEnd;
  return {
    do: 'add',
    id,
    class: memory.class,
    scope: memory.scope,
    status,
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    content,
  };
}

const ABOUT = [
  'occurred_at',
  'speaker',
  'ref',
  'thread',
  'seq',
  'caption',
  'valid_from',
  'valid_to',
  'importance',
] as const satisfies readonly (keyof About)[];

export const pickAbout = (memory: About): About =>
  Object.fromEntries(
    ABOUT.flatMap((name) => (memory[name] === undefined ? [] : [[name, memory[name]]])),
  );

function toContent(
  actor: Actor,
  memory: NewMemory,
  stored: StoredText,
  links: MemoryLink[],
): VersionContent {
  const author = actor.run === undefined ? 'person' : 'agent';
  return {
    ...stored,
    about: pickAbout(memory),
    labels: stampLabels(author, memory.labels ?? [], actor.run?.labels ?? []),
    ...(links.length === 0 ? {} : { links }),
  };
}
