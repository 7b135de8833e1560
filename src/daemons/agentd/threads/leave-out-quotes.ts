// Leaves out what a message of an agent quotes of its thread, and says in a few lines what went
// before instead, so that no thread grows by its own quotes.
import type { MessagePart, MessageView } from '../../../wire/agentd.ts';
import { formatText } from '../message-rules.ts';
import type { AgentdStore } from '../store/store.ts';
import { hasQuotes, removeQuotes } from './quoted-text.ts';
import { writeDigest } from './thread-digest.ts';

const EARLIER_MAX = 100;

type Pair = { contextId: string; from: string; to: string };

export async function leaveOutQuotes(
  store: Pick<AgentdStore, 'messages'>,
  { contextId, from, to }: Pair,
  parts: readonly MessagePart[],
): Promise<MessagePart[]> {
  if (!parts.some((part) => part.kind === 'text' && hasQuotes(part.text))) return [...parts];
  const { rows } = await store.messages({ context_id: contextId }, { limit: EARLIER_MAX });
  const known = rows.filter((row) => row.from === from || row.to === from).reverse();
  const texts = known.map((row) => formatText(row.parts));
  // Messages of others to the sender may carry marks that the receiver has not got.
  const digest = describe(known.filter((row) => row.from === to || row.to === to));
  return parts.map((part) => {
    if (part.kind !== 'text') return part;
    const { text, removed } = removeQuotes(part.text, texts);
    if (removed === 0) return part;
    const note = `[${removed === 1 ? '1 quoted line is' : `${removed} quoted lines are`} left out.${digest}]`;
    return { kind: 'text', text: text === '' ? note : `${text}\n\n${note}` };
  });
}

function describe(messages: readonly MessageView[]): string {
  if (messages.length === 0) return '';
  const lines = messages.map((one) => ({ who: one.from, text: formatText(one.parts) }));
  return ` ${writeDigest('Earlier between you', lines)}`;
}
