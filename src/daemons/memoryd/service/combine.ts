// Merges and summarizes memories: the caller brings the text, the labels of everything that went in
// stay on it, and it is linked to each of them.
import type { NewId } from '../../../platform/ids.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryClass, MemoryId, MemoryLink } from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { Change } from '../journal/entry.ts';
import { assertNoSecrets, markPersonal } from '../rules/content.ts';
import { filterMarks, uniteLabels } from '../rules/marks.ts';
import { readLabels } from '../rules/view.ts';
import type { Commit } from '../store/commit.ts';
import { findParts } from '../store/read.ts';
import type { Finder } from './finder.ts';
import { toEntryRun } from './remember.ts';
import type { Actor, Rights } from './rights.ts';
import type { Texts } from './texts.ts';

export type Combination = {
  ids: readonly string[];
  text: string;
  /** By default those of all inputs, if they are the same. */
  class?: MemoryClass | undefined;
  scope?: string | undefined;
};

/** Resolves to the id of the new memory. `merge` ends the inputs, `summarize` keeps them. */
export type Combine = (
  actor: Actor,
  op: 'merge' | 'summarize',
  combination: Combination,
  once?: IdempotencyKey,
) => Promise<string>;

export function makeCombine(deps: {
  commit: Commit;
  rights: Rights;
  finder: Finder;
  texts: Texts;
  newId: NewId;
}): Combine {
  const { commit, rights, finder, texts, newId } = deps;

  /** Merging changes the inputs; a summary only reads them. */
  const decide = async (
    actor: Actor,
    op: 'merge' | 'summarize',
    scopes: { target: string; inputs: readonly string[] },
    marks: readonly Label[],
  ): Promise<'active' | 'proposed'> => {
    const written = new Set([scopes.target, ...(op === 'merge' ? scopes.inputs : [])]);
    let status: 'active' | 'proposed' = 'active';
    for (const scope of written) {
      const decision = await rights.decide(actor, 'memory.write', scope, marks);
      if (decision.answer === 'deny')
        throw await rights.deny(actor, 'memory.write', scope, decision);
      if (decision.answer === 'ask') status = 'proposed';
    }
    return status;
  };

  return async (actor, op, { text, ...wanted }, once) => {
    assertNoSecrets([{ text }]);
    const ids = [...new Set(wanted.ids)];
    const inputs = [];
    for (const id of ids) inputs.push(await finder.view(actor, id));
    const scope =
      wanted.scope ??
      readCommon(
        'scope',
        inputs.map((input) => input.scope),
      );
    const kind =
      wanted.class ??
      readCommon(
        'class',
        inputs.map((input) => input.class),
      );
    const personal = markPersonal({ text });
    const marks = filterMarks([...personal, ...inputs.flatMap(({ labels }) => labels)]);
    const places = { target: scope, inputs: inputs.map((input) => input.scope) };
    const status = await decide(actor, op, places, marks);
    const newMemory = newId<MemoryId>('memory');
    const changed = await texts.whileStored([text], ([stored]) =>
      commit(async (sql) => {
        const links: MemoryLink[] = [];
        const labels: Label[][] = [[actor.run === undefined ? 'person' : 'agent']];
        for (const id of ids) {
          const { memory, row } = (await findParts(sql, id))!;
          if (memory.status !== 'active') throw fault('conflict', `${id} is ${memory.status}`);
          const version = Number(row.version);
          links.push({
            kind: op === 'merge' ? 'merges' : 'summarizes',
            id: id as MemoryId,
            version,
          });
          labels.push(readLabels(row));
        }
        const content = {
          ...stored!,
          about: {},
          labels: uniteLabels(...labels, actor.run?.labels ?? [], personal),
          links,
        };
        const add: Change = { do: 'add', id: newMemory, class: kind, scope, status, content };
        const ends: Change[] =
          op === 'merge' && status === 'active'
            ? ids.map((id) => ({ do: 'end', id: id as MemoryId, status: 'merged' }))
            : [];
        return { op, by: actor.principal, run: toEntryRun(actor), changes: [add, ...ends] };
      }, once),
    );
    return changed[0]!;
  };
}

function readCommon<T extends string>(name: string, values: readonly T[]): T {
  if (new Set(values).size === 1) return values[0]!;
  throw fault('bad_request', `body ${name}: needed, because the memories have different ones`);
}
