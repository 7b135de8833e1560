// Completes a mail that a program of this host hands over, as sendmail does: recipients from its
// fields, and the fields that it lacks. Pure.
import { readFields } from './headers.ts';

export type Submission = { raw: Buffer; to: string[] };

export type SubmissionFacts = {
  /** Without angle brackets. */
  address: string;
  messageId: string;
  nowMs: number;
  /** Adds the recipients that its fields name. */
  readsRecipients: boolean;
  to: readonly string[];
};

export function completeSubmission(given: Buffer, facts: SubmissionFacts): Submission {
  const text = given.toString('latin1').replace(/\r?\n/g, '\r\n');
  const at = /^\r\n|\r\n\r\n/.exec(text);
  // A text that begins with no field has no header at all.
  const hasHead = /^[!-9;-~]+[ \t]*:/.test(text);
  const headEnd = !hasHead ? 0 : at === null ? text.length : at.index + 2;
  const head = text.slice(0, headEnd);
  const body = hasHead ? text.slice(headEnd) : `\r\n${text}`;
  const fields = readFields(head);
  const named = facts.readsRecipients
    ? ['to', 'cc', 'bcc'].flatMap((name) => readAddresses(fields.get(name) ?? ''))
    : [];
  const added = [
    ...(fields.has('date')
      ? []
      : [`Date: ${new Date(facts.nowMs).toUTCString().replace('GMT', '+0000')}`]),
    ...(fields.has('from') ? [] : [`From: <${facts.address}>`]),
    ...(fields.has('message-id') ? [] : [`Message-ID: <${facts.messageId}>`]),
  ];
  const whole = `${added.map((line) => `${line}\r\n`).join('')}${dropBlindCopies(head)}${body}`;
  return {
    raw: Buffer.from(whole.endsWith('\r\n') ? whole : `${whole}\r\n`, 'latin1'),
    to: [...new Set([...facts.to, ...named])],
  };
}

function dropBlindCopies(head: string): string {
  const kept: string[] = [];
  let isDropped = false;
  for (const line of head.split('\r\n').slice(0, -1)) {
    if (!/^[ \t]/.test(line)) isDropped = /^bcc[ \t]*:/i.test(line);
    if (!isDropped) kept.push(`${line}\r\n`);
  }
  return kept.join('');
}

/** Reads `Ann <ann@x>, "Smith, Bob" <bob@x>, coder`. */
export function readAddresses(value: string): string[] {
  const found: string[] = [];
  let current = '';
  let isQuoted = false;
  for (const character of `${value},`) {
    if (character === '"') isQuoted = !isQuoted;
    if (character !== ',' || isQuoted) {
      current += character;
      continue;
    }
    const address = /<([^<>]*)>/.exec(current)?.[1] ?? current;
    if (address.trim() !== '') found.push(address.trim());
    current = '';
  }
  return found;
}
