// A mail as it is put into a Maildir: with the fields that say how it came, and line ends of this
// system. Pure.
import type { IncomingRow } from '../store/incoming.ts';

/** Set here only: those of the sender are removed. */
const OWN = /^(return-path|delivered-to|x-agentd-[a-z-]*|sender)[ \t]*:/i;

export function traceMail(
  mail: Pick<IncomingRow, 'id' | 'sender' | 'envelope_from' | 'raw' | 'taken_ms'>,
  { box, domain }: { box: string; domain: string },
): Buffer {
  const raw = Buffer.from(mail.raw!);
  const at = raw.indexOf('\r\n\r\n');
  const bodyAt = at === -1 ? raw.length : at + 2;
  const date = new Date(Number(mail.taken_ms)).toUTCString().replace('GMT', '+0000');
  const person = mail.sender.startsWith('person:')
    ? mail.sender.slice('person:'.length)
    : undefined;
  const own = [
    `Return-Path: <${mail.envelope_from.replace(/[^\x21-\x7e]|[<>]/g, '')}>`,
    `Delivered-To: ${box.includes('@') ? box : `${box}@${domain}`}`,
    `Received: by ${domain} (maild) id ${mail.id}; ${date}`,
    // Who it was, by the key; the field From says what it likes.
    `X-Agentd-Sender: ${mail.sender}`,
    ...(person === undefined
      ? []
      : [`Sender: ${person.includes('@') ? person : `${person}@${domain}`}`]),
  ];
  const head = `${own.join('\n')}\n${dropFields(raw.toString('latin1', 0, bodyAt))}`;
  const body = raw.subarray(bodyAt);
  return Buffer.concat([Buffer.from(head, 'latin1'), toUnixLines(body)]);
}

function dropFields(head: string): string {
  const kept: string[] = [];
  let isDropped = false;
  for (const line of head.split('\r\n').slice(0, -1)) {
    if (!/^[ \t]/.test(line)) isDropped = OWN.test(line);
    if (!isDropped) kept.push(`${line}\n`);
  }
  return kept.join('');
}

/** Every CR is followed by LF: others were refused. */
function toUnixLines(body: Buffer): Buffer {
  const out = Buffer.allocUnsafe(body.length);
  let n = 0;
  for (const byte of body) if (byte !== 13) out[n++] = byte;
  return out.subarray(0, n);
}
