// Checks ids on the command line, so that the error names the command to look them up with. The
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
      what: `${text} is the id of ${other.article}, not ${article}`,
      hint: `Look it up: ${see}`,
    };
  const what = `'${text}' is not ${article} id: expected ${kind}_ followed by 26 letters and digits`;
  return { what, hint: `Look it up: ${see}` };
}

export function checkId(text: string, completes: Completes | undefined): void {
  const wrong = describeWrongId(text, completes);
  if (wrong !== undefined) throw fault('bad_usage', wrong.what, { hint: wrong.hint });
}
