// Mails that maild writes: one line for each field whatever the text, and the text as it was.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeQuoted, type Letter, writeLetter } from './compose.ts';
import { decodeText, encodeText, readFields } from './headers.ts';

const letter = (more: Partial<Letter> = {}): Letter => ({
  from: { name: 'coder', address: 'coder@agentd.localhost' },
  to: 'ann@agentd.localhost',
  subject: 'Herons',
  text: 'Seven.',
  messageId: 'task_1.result@agentd.localhost',
  references: [],
  atMs: Date.parse('2026-01-02T03:04:05Z'),
  isAutomatic: true,
  taskId: null,
  ...more,
});
const split = (mail: Buffer): [head: string, body: string] => {
  const text = mail.toString('utf8');
  const at = text.indexOf('\n\n');
  return [text.slice(0, at + 1), text.slice(at + 2)];
};

test('a mail has its fields, and its text ends with a line end', () => {
  const [head, body] = split(writeLetter(letter({ references: ['a@b', 'c@d'], inReplyTo: 'c@d' })));
  const fields = readFields(head);
  assert.equal(fields.get('date'), 'Fri, 02 Jan 2026 03:04:05 +0000');
  assert.equal(fields.get('references'), '<a@b> <c@d>');
  assert.equal(fields.get('in-reply-to'), '<c@d>');
  assert.equal(fields.get('auto-submitted'), 'auto-generated');
  assert.equal(body, 'Seven.\n');
});

test('no subject and no name can add a field or end the head', () => {
  const hostile = fc.string({
    unit: fc.constantFrom('\r', '\n', ':', ' ', 'Bcc: x', 'é', '\u2028', '\0', '=?', 'a'),
  });
  fc.assert(
    fc.property(hostile, hostile, (subject, name) => {
      const from = { name, address: 'coder@agentd.localhost' };
      const [head] = split(writeLetter(letter({ subject, from })));
      const names = head.match(/^[\w-]+(?=:)/gm);
      const usual = split(writeLetter(letter()))[0].match(/^[\w-]+(?=:)/gm);
      const isEmpty = encodeText(subject) === '';
      assert.deepEqual(names, isEmpty ? usual!.filter((field) => field !== 'Subject') : usual);
    }),
  );
  assert.doesNotMatch(encodeText('a\r\nBcc: b'), /\n[^ ]/);
});

test('what was encoded is decoded, in words of up to 75 characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
      const value = encodeText(text);
      for (const word of value.split('\n ')) assert.ok(/^[\x20-\x7e]*$/.test(word));
      const kept = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
      assert.equal(decodeText(readFields(`subject: ${value}\n`).get('subject')!), kept);
    }),
  );
  assert.equal(decodeText('=?iso-8859-1?Q?caf=E9_au?= lait'), 'café au lait');
  assert.equal(decodeText('=?x-unknown?Q?a?='), '=?x-unknown?Q?a?=');
  const split = `${'a'.repeat(41)} b…`;
  assert.equal(decodeText(encodeText(split).replace('\n', '')), split, 'split at a space');
});

test('a long line is quoted, and read back as it was', () => {
  const text = `${'héron = '.repeat(500)}\n${'x'.repeat(2_000)} \n`;
  const [head, body] = split(writeLetter(letter({ text })));
  assert.match(head, /^Content-Transfer-Encoding: quoted-printable$/m);
  for (const line of body.split('\n')) assert.ok(line.length <= 76);
  assert.equal(decodeQuoted(body).toString('utf8'), text);
});

test('characters that are no text are not in a mail', () => {
  const [, body] = split(writeLetter(letter({ text: 'a\0b\rc\r\nd\u001b[31m\ud800' })));
  assert.equal(body, 'ab\nc\nd[31m\ufffd\n');
});
