// The audit events of memoryd: one for each change of an entry, named after its number, and one for
// each recall. They carry ids, scopes and sizes, never text and no hash of it.
import type { EventDraft } from '../../wire/events.ts';
import type { Change, JournalEntry, Operation } from './journal/entry.ts';

type Kind = EventDraft['event'];

const ADDED: Partial<Record<Operation, Kind>> = {
  merge: 'memory.merged',
  summarize: 'memory.summarized',
};

function kindOf(op: Operation, change: Exclude<Change, { do: 'gone' }>): Kind {
  switch (change.do) {
    case 'add':
      return change.status === 'proposed' ? 'memory.proposed' : (ADDED[op] ?? 'memory.remembered');
    case 'revise':
      return op === 'rollback' ? 'memory.restored' : 'memory.edited';
    case 'accept':
      return 'memory.approved';
    case 'end':
      return 'memory.ended';
    case 'expire-at':
      return 'memory.expiry.set';
    case 'forget':
      return 'memory.forgotten';
    case 'prune':
      return 'memory.pruned';
    case 'snapshot':
      return 'memory.snapshot.taken';
  }
}

/** Their ids follow from the numbers in the journal. */
export function draftEvents({ n, op, by, run, approval_id, changes }: JournalEntry): EventDraft[] {
  return changes.flatMap((change, i) =>
    change.do === 'gone'
      ? []
      : {
          id: `${change.id}.${n + i}`,
          event: kindOf(op, change),
          ...describePrincipal(by),
          ...run,
          ...(change.do === 'end' ? { status: change.status } : {}),
          data: {
            memory_id: change.id,
            operation: op,
            ...(approval_id === undefined ? {} : { approval_id }),
            ...('scope' in change ? { scope: change.scope } : {}),
            ...('class' in change ? { class: change.class } : {}),
            ...('cause' in change ? { cause: change.cause } : {}),
            ...('content' in change
              ? { size_bytes: change.content.size, labels: change.content.labels.join(' ') }
              : {}),
          },
        },
  );
}

export const describePrincipal = (by: string): Pick<EventDraft, 'principal' | 'agent'> => ({
  principal: by,
  ...(by.startsWith('agent:') ? { agent: by.slice('agent:'.length) } : {}),
});
