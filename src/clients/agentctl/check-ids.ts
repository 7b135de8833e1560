// What was typed where only an id can stand. Told here in the words of the command line; the
// daemons check again.
import { fault } from '../../wire/errors.ts';
import type { Completes } from './command.ts';

const KINDS: Readonly<Record<string, { kind: string; article: string; see: string }>> = {
  task: { kind: 'task', article: 'a task', see: 'agentctl task list' },
  approval: { kind: 'approval', article: 'an approval', see: 'agentctl approvals' },
  artifact: { kind: 'artifact', article: 'an artifact', see: 'agentctl artifact list' },
  call: { kind: 'call', article: 'a call', see: 'agentctl audit tail' },
  context: { kind: 'ctx', article: 'a thread', see: 'agentctl task show ID' },
  permit: { kind: 'permit', article: 'a permit', see: 'agentctl permit list' },
  question: { kind: 'wait', article: 'a question', see: 'agentctl questions' },
};

/** What is wrong with an id, and where the right ones are. */
function describeWrongId(
  text: string,
  completes: Completes | undefined,
): { what: string; hint: string } | undefined {
  const known = typeof completes === 'string' ? KINDS[completes] : undefined;
  if (known === undefined) return undefined;
  const { kind, article, see } = known;
  if (new RegExp(`^(artifact://)?${kind}_[0-9a-z]{26}$`).test(text)) return undefined;
  const other = Object.values(KINDS).find((one) => text.startsWith(`${one.kind}_`));
  if (other !== undefined && other !== known)
    return {
      what: `${text} is the id of ${other.article}, not of ${article}`,
      hint: `See: ${see}`,
    };
  const what = `'${text}' is not the id of ${article}; those are ${kind}_ and 26 letters and digits`;
  return { what, hint: `See: ${see}` };
}

export function checkId(text: string, completes: Completes | undefined): void {
  const wrong = describeWrongId(text, completes);
  if (wrong !== undefined) throw fault('bad_usage', wrong.what, { hint: wrong.hint });
}
