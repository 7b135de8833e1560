// Knows ids on the command line: which are whole, which are the beginning of one, and how the error
// for any other text names the command to look them up with. The daemons check again.
import type { DaemonName } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import type { Completes } from './command.ts';

export type IdKind = {
  kind: string;
  article: string;
  see: string;
  /** The daemons that have these ids. */
  daemons: readonly DaemonName[];
};

const KINDS: Readonly<Record<string, IdKind>> = {
  task: { kind: 'task', article: 'a task', see: 'agentctl task list', daemons: ['agentd'] },
  approval: {
    kind: 'approval',
    article: 'an approval',
    see: 'agentctl approvals',
    daemons: ['approvald'],
  },
  artifact: {
    kind: 'artifact',
    article: 'an artifact',
    see: 'agentctl artifact list',
    daemons: ['agentd'],
  },
  call: {
    kind: 'call',
    article: 'a call',
    see: 'agentctl audit tail',
    daemons: ['toold', 'modeld'],
  },
  context: { kind: 'ctx', article: 'a thread', see: 'agentctl task show ID', daemons: ['agentd'] },
  permit: {
    kind: 'permit',
    article: 'a permit',
    see: 'agentctl permit list',
    daemons: ['approvald'],
  },
  question: {
    kind: 'wait',
    article: 'a question',
    see: 'agentctl questions',
    daemons: ['agentd'],
  },
  memory: {
    kind: 'memory',
    article: 'a memory',
    see: 'agentctl memory list',
    daemons: ['memoryd'],
  },
};

const EVENTS_SEE = 'agentctl audit tail --json';
/** Ids that only ids of events begin with. */
const IN_EVENTS: readonly IdKind[] = [
  { kind: 'run', article: 'a run', see: EVENTS_SEE, daemons: ['agentd'] },
  { kind: 'msg', article: 'a message', see: EVENTS_SEE, daemons: ['agentd'] },
  { kind: 'box', article: 'a box', see: EVENTS_SEE, daemons: ['sandboxd'] },
];

/** At least four characters, so that a word that was meant otherwise is rarely taken for an id. */
const START = '[0-9a-hjkmnp-tv-z]{4,25}';

/** The beginning of an id, without what may follow it in a list or in the id of an event. */
export type ShortId = { known: IdKind; prefix: string; rest: string };

export function findShortId(text: string, completes: Completes | undefined): ShortId | undefined {
  if (completes === 'event') {
    const [, kind, start, rest] = new RegExp(`^([a-z]+)_(${START})…?(\\..+)$`).exec(text) ?? [];
    const known = [...Object.values(KINDS), ...IN_EVENTS].find((one) => one.kind === kind);
    return known && { known, prefix: `${known.kind}_${start}`, rest: rest! };
  }
  const known = typeof completes === 'string' ? KINDS[completes] : undefined;
  if (known === undefined) return undefined;
  const [, start] =
    new RegExp(`^(?:artifact://)?(?:${known.kind}_)?(${START})…?$`).exec(text) ?? [];
  return start === undefined ? undefined : { known, prefix: `${known.kind}_${start}`, rest: '' };
}

function describeWrongId(
  text: string,
  completes: Completes | undefined,
): { what: string; hint: string } | undefined {
  const known = typeof completes === 'string' ? KINDS[completes] : undefined;
  if (known === undefined || findShortId(text, completes) !== undefined) return undefined;
  const { kind, article, see } = known;
  if (new RegExp(`^(artifact://)?${kind}_[0-9a-z]{26}$`).test(text)) return undefined;
  const other = Object.values(KINDS).find((one) => text.startsWith(`${one.kind}_`));
  if (other !== undefined && other !== known)
    return {
      what: `${text} is the id of ${other.article}, not ${article}`,
      hint: `Look it up: ${see}`,
    };
  const what = `'${text}' is not ${article} id: expected ${kind}_ followed by 26 letters and digits, or the first of them`;
  return { what, hint: `Look it up: ${see}` };
}

export function checkId(text: string, completes: Completes | undefined): void {
  const wrong = describeWrongId(text, completes);
  if (wrong !== undefined) throw fault('bad_usage', wrong.what, { hint: wrong.hint });
}
