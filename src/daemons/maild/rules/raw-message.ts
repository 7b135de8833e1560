// Checks the bytes of a mail before anything parses it: what could be read in two ways, or goes in
// circles, is refused. Pure.

/** A refusal as SMTP has it: a code of three digits, and an enhanced one (RFC 3463). */
export type SmtpRefusal = { code: number; text: string };

export const MAIL_BYTES_MAX = 10 * 1024 * 1024;
const HEAD_BYTES_MAX = 256 * 1024;
/** A mail that passed through so many servers goes in circles. */
const RECEIVED_MAX = 30;
const CR = 13;
const LF = 10;

/** Fields that a mail has at most once: programs disagree about which of two counts. */
const SINGLE = ['from', 'sender', 'reply-to', 'to', 'cc', 'subject', 'date', 'message-id'];
const SINGLE_MIME = ['in-reply-to', 'references', 'content-type', 'content-transfer-encoding'];

export type CheckedMail =
  | { ok: true; head: string; bodyAt: number }
  | { ok: false; refusal: SmtpRefusal };

const refuse = (code: number, text: string): CheckedMail => ({
  ok: false,
  refusal: { code, text },
});

export function checkRawMail(raw: Buffer): CheckedMail {
  if (raw.length > MAIL_BYTES_MAX)
    return refuse(552, `5.3.4 the mail is larger than ${MAIL_BYTES_MAX} bytes`);
  if (hasBareLineEnd(raw))
    return refuse(554, '5.6.0 the mail has a bare CR or LF; lines end with CR LF');
  const bodyAt = findBody(raw);
  if (bodyAt > HEAD_BYTES_MAX) return refuse(554, '5.6.0 the header is too large');
  const head = raw.toString('latin1', 0, bodyAt);
  if (head.includes('\0')) return refuse(554, '5.6.0 the header has a NUL');
  const counts = new Map<string, number>();
  for (const line of head.split('\r\n')) {
    if (line === '' || /^[ \t]/.test(line)) continue;
    const name = /^([!-9;-~]+)[ \t]*:/.exec(line)?.[1]?.toLowerCase();
    if (name === undefined) return refuse(554, '5.6.0 a line of the header is no field');
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  if (/^[ \t]/.test(head)) return refuse(554, '5.6.0 the header begins with a continuation');
  const twice = [...SINGLE, ...SINGLE_MIME].find((name) => (counts.get(name) ?? 0) > 1);
  if (twice !== undefined) return refuse(554, `5.6.0 the field ${twice} is there more than once`);
  if ((counts.get('received') ?? 0) > RECEIVED_MAX)
    return refuse(554, '5.4.6 the mail goes in circles');
  return { ok: true, head, bodyAt };
}

/** Servers that take a bare LF for a line end can be made to see two mails in one. */
function hasBareLineEnd(raw: Buffer): boolean {
  for (let at = raw.indexOf(LF); at !== -1; at = raw.indexOf(LF, at + 1))
    if (at === 0 || raw[at - 1] !== CR) return true;
  for (let at = raw.indexOf(CR); at !== -1; at = raw.indexOf(CR, at + 1))
    if (raw[at + 1] !== LF) return true;
  return false;
}

function findBody(raw: Buffer): number {
  if (raw.length >= 2 && raw[0] === CR && raw[1] === LF) return 0;
  const at = raw.indexOf('\r\n\r\n');
  return at === -1 ? raw.length : at + 2;
}
