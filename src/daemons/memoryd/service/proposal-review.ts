// Shows approvald what a person may see of a proposal, and takes the person's edit of it. It says
// why this person may not decide, for memory.write; whether they may decide approvals is
// approvald's matter.
import type { PersonKeys } from '../../../platform/person-keys.ts';
import type { ActingPerson } from '../../../wire/approvald/proposals.ts';
import { PROPOSAL_SHOWN_CHARS_MAX } from '../../../wire/memoryd/proposals.ts';
import type { MemoryId, MemoryView } from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import { filterMarks } from '../rules/marks.ts';
import type { MemoryChanges } from './changes.ts';
import type { Finder } from './finder.ts';
import type { Actor, Rights } from './rights.ts';

export type ProposalReview = {
  version: number;
  status: MemoryView['status'];
  labels: Label[];
  diff: string;
  approve_obstacle: string | null;
  reject_obstacle: string | null;
};

const OWN_KEY = 'people/';

export const toActor = ({ principal, key }: ActingPerson): Actor => ({
  principal,
  person: key.startsWith(OWN_KEY) ? key.slice(OWN_KEY.length) : undefined,
});

export function makeProposalReviews(deps: {
  finder: Finder;
  rights: Rights;
  changes: Pick<MemoryChanges, 'edit'>;
  people: Pick<PersonKeys, 'has'>;
}) {
  const { finder, rights, changes, people } = deps;

  /** Names that only the operator's key can have stood for are one person. */
  const isProposer = (author: string, person: ActingPerson): boolean => {
    if (author === person.principal) return true;
    if (!author.startsWith('person:')) return false;
    const name = author.slice('person:'.length);
    return !people.has(name) && !person.key.startsWith(OWN_KEY);
  };

  return {
    async review(id: MemoryId, person: ActingPerson): Promise<ProposalReview> {
      const actor = toActor(person);
      const memory = await finder.view(actor, id);
      const first = await finder.view(actor, id, 1);
      const { scope, version, status, labels } = memory;
      const { answer, reason } = await rights.decide(
        actor,
        'memory.write',
        scope,
        filterMarks(labels),
      );
      const denied = answer === 'deny' ? reason : null;
      const asks = answer === 'ask' && isProposer(first.by, person);
      return {
        version,
        status,
        labels,
        diff: renderDiff(memory, await readReplaced(finder, actor, memory)),
        approve_obstacle: asks
          ? `${person.principal} proposed it, so another person must approve it (${reason})`
          : denied,
        reject_obstacle: denied,
      };
    },

    async edit(
      id: MemoryId,
      person: ActingPerson,
      edit: { version: number; text: string },
    ): Promise<{ version: number; labels: Label[] }> {
      const actor = toActor(person);
      await changes.edit(actor, id, edit);
      const { version, labels } = await finder.view(actor, id);
      return { version, labels };
    },
  };
}
export type ProposalReviews = ReturnType<typeof makeProposalReviews>;

/** The memories that would end with it, as far as the person may read them. */
function readReplaced(finder: Finder, actor: Actor, { links }: MemoryView): Promise<MemoryView[]> {
  const ended = links.filter(({ kind }) => kind === 'supersedes' || kind === 'merges');
  return Promise.all(ended.map(({ id, version }) => finder.view(actor, id, version)));
}

const DESCRIBED = ['caption', 'speaker', 'ref', 'occurred_at', 'valid_from', 'valid_to'] as const;

const listLines = (memory: MemoryView): string[] => [
  ...cutText(memory.id, memory.text ?? '[forgotten]').split('\n'),
  ...DESCRIBED.flatMap((name) => (memory[name] === null ? [] : [`${name}: ${memory[name]}`])),
];

function cutText(id: string, text: string): string {
  if (text.length <= PROPOSAL_SHOWN_CHARS_MAX) return text;
  const rest = text.length - PROPOSAL_SHOWN_CHARS_MAX;
  const shown = text.slice(0, PROPOSAL_SHOWN_CHARS_MAX);
  return `${shown}\n[${rest} more characters; all of it: agentctl memory show ${id}]`;
}

function renderDiff(memory: MemoryView, replaced: readonly MemoryView[]): string {
  const lines = [
    ...replaced.flatMap((old) => [
      `--- ${old.id} version ${old.version}`,
      ...listLines(old).map((line) => `-${line}`),
    ]),
    `+++ ${memory.id} version ${memory.version}`,
    ...listLines(memory).map((line) => `+${line}`),
  ];
  return `${lines.join('\n')}\n`;
}
