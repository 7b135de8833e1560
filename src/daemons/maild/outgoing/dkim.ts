// Signs mail (DKIM, RFC 6376, and RFC 8463 for Ed25519): which domain vouches for it. Pure but for
// the key that it is given.
import { createHash, type KeyObject, sign } from 'node:crypto';

export type DkimSigner = {
  domain: string;
  selector: string;
  key: KeyObject;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
};

/** Signed once more than they are there, so that nobody can add another one of them. */
const GUARDED = ['from', 'to', 'cc', 'subject', 'date', 'message-id', 'reply-to', 'sender'];
const ALSO_SIGNED = [
  'in-reply-to',
  'references',
  'auto-submitted',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
];
const BASE64_CHARS_MAX = 72;

type Field = { name: string; value: string };

/** The mail has CR LF. Returns it with the signature as its first field. */
export function signMail(mail: string, signer: DkimSigner, nowMs: number): string {
  const at = mail.indexOf('\r\n\r\n');
  const head = mail.slice(0, at + 2);
  const body = mail.slice(at + 4);
  const fields = readAll(head);
  const names = [
    ...ALSO_SIGNED.filter((name) => fields.some((field) => field.name === name)),
    ...GUARDED.flatMap((name) => [
      ...fields.filter((field) => field.name === name).map(() => name),
      name,
    ]),
  ];
  const bodyHash = createHash('sha256').update(relaxBody(body)).digest('base64');
  const unsigned = [
    `DKIM-Signature: v=1; a=${signer.algorithm}; c=relaxed/relaxed; d=${signer.domain};`,
    ` s=${signer.selector}; t=${Math.floor(nowMs / 1000)};`,
    ` h=${names.join(':\r\n  ')};`,
    ` bh=${bodyHash};`,
    ' b=',
  ].join('\r\n');
  const own = relaxField(unsigned.slice(0, unsigned.indexOf(':')), unsigned.slice(15));
  const signed = `${selectFields(fields, names)}${own}`;
  const signature = signText(signed, signer)
    .toString('base64')
    .replace(new RegExp(`.{1,${BASE64_CHARS_MAX}}`, 'g'), '$&\r\n ')
    .trimEnd();
  return `${unsigned}${signature}\r\n${mail}`;
}

function signText(text: string, { key, algorithm }: DkimSigner): Buffer {
  const data = Buffer.from(text, 'latin1');
  if (algorithm === 'rsa-sha256') return sign('sha256', data, key);
  return sign(null, createHash('sha256').update(data).digest(), key);
}

function readAll(head: string): Field[] {
  return head
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
    .filter((line) => line !== '')
    .map((line) => {
      const at = line.indexOf(':');
      return { name: line.slice(0, at).trim().toLowerCase(), value: line.slice(at + 1) };
    });
}

/** The last of several fields of one name comes first; one that is not there signs its absence. */
function selectFields(fields: readonly Field[], names: readonly string[]): string {
  const left = [...fields];
  let text = '';
  for (const name of names) {
    const at = left.findLastIndex((field) => field.name === name);
    if (at === -1) continue;
    const [field] = left.splice(at, 1);
    text += `${relaxField(name, field!.value)}\r\n`;
  }
  return text;
}

const relaxField = (name: string, value: string): string =>
  `${name.toLowerCase()}:${value
    .replace(/\r\n/g, '')
    .replace(/[ \t]+/g, ' ')
    .trim()}`;

function relaxBody(body: string): Buffer {
  const lines = body.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''));
  const kept = lines.slice(0, lines.findLastIndex((line) => line !== '') + 1);
  return Buffer.from(kept.map((line) => `${line}\r\n`).join(''), 'latin1');
}
