// The texts about the limits of a thread: for the agent that is refused, and for the person who is
// asked. Pure.
import type { TurnLimit } from '../../../wire/agentd.ts';
import type { Exchange, ThreadLimits } from './turn-rules.ts';

export type RefusedTurn = Pick<Exchange, 'stoppedBy' | 'history'> & {
  reason: TurnLimit;
  from: string;
  to: string;
  text: string;
  limits: ThreadLimits;
};

export const EXCHANGE_CHOICES = { goOn: 'go on', stop: 'stop' } as const;

const QUOTE_CHARS_MAX = 240;
const TURNS_SHOWN = 4;

export function describeLimit({ reason, limits, stoppedBy }: RefusedTurn): string {
  const since = 'since a person last wrote in this thread';
  switch (reason) {
    case 'turns':
      return `agents have taken ${limits.turnsMax} turns ${since}, which is its limit`;
    case 'repeats':
      return `the last ${limits.repeatsMax} turns between the two agents repeat what they said before`;
    case 'cost':
      return `the work ${since} has cost ${limits.costMicrousdMax / 1_000_000} USD, which is its limit`;
    case 'stopped':
      return `${stoppedBy} ended what agents write to each other in this thread`;
  }
}

const DECIDE = 'The next move is yours: decide with what you have and end your task';

export function hintForLimit(reason: TurnLimit, isMessage: boolean): string {
  if (reason === 'stopped') return `${DECIDE}.`;
  const something = reason === 'repeats' ? ', say something new' : '';
  const again = isMessage ? ' If you write again, a person is asked for you.' : '';
  return `${DECIDE}${something}, or ask a person with person.ask: after an answer you may go on.${again}`;
}

export function writeExchangeQuestion(refused: RefusedTurn): string {
  const { from, to, text, history } = refused;
  const last = history.slice(-TURNS_SHOWN);
  return [
    `May ${from} and ${to} go on? ${capitalize(describeLimit(refused))}.`,
    ...(last.length === 0 ? [] : ['', 'They wrote last:']),
    ...last.map((one) => `- ${one.from}: ${quote(one.text)}`),
    '',
    `${from} would write next: ${quote(text)}`,
  ].join('\n');
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function quote(text: string): string {
  const line = text.trim().replace(/[\s\p{Cc}]+/gu, ' ');
  return line.length > QUOTE_CHARS_MAX ? `${line.slice(0, QUOTE_CHARS_MAX)}…` : line;
}
