// Forgotten texts in mails: found in each part, however it is encoded; everything else stays.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeRedactor } from '../../../platform/copies/redact.ts';
import { toForgottenMemory } from '../../../wire/copies.ts';
import { parseMail } from '../parser/parse-mail.ts';
import { encodeQuoted } from './compose.ts';
import { encodeText } from './headers.ts';
import { redactLetter } from './redact-letter.ts';

const TEXT = 'The key of the boathouse lies under the third stone, said the café.';
const redactor = makeRedactor([toForgottenMemory('memory_01h00000000000000000000000', [TEXT])]);
const HEAD = ['From: ann@example.org', 'Subject: Keys', 'MIME-Version: 1.0'];

const mailOf = (lines: readonly (string | Buffer)[], end = '\r\n'): Buffer =>
  Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from(end)]));
const part = (type: string, encoding: string, body: string | Buffer) => [
  `Content-Type: ${type}`,
  `Content-Transfer-Encoding: ${encoding}`,
  '',
  body,
];
const base64 = (text: string | Buffer): string =>
  Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\r\n');
const redact = (mail: Buffer): Buffer => redactLetter(mail, redactor) ?? mail;

const BODIES: Record<string, (string | Buffer)[]> = {
  'as it is': part('text/plain; charset=utf-8', '8bit', `Hear: ${TEXT} Good.`),
  'without a charset': part('text/plain', '8bit', `Hear: ${TEXT} Good.`),
  'in base64': part('text/plain; charset="UTF-8"', 'base64', base64(`Hear: ${TEXT} Good.`)),
  'in quoted-printable': part(
    'text/plain; charset=utf-8',
    'quoted-printable',
    encodeQuoted(`Hear: ${TEXT} Good.`).replaceAll('\n', '\r\n'),
  ),
  'in Latin-1': part(
    'text/plain; charset=iso-8859-1',
    '8bit',
    Buffer.from(`Hear: ${TEXT} Good.`, 'latin1'),
  ),
  'as HTML': part('text/html; charset=utf-8', '8bit', `<p>Hear: ${TEXT} Good.</p>`),
};

for (const [name, body] of Object.entries(BODIES)) {
  test(`a text ${name} is found`, async () => {
    const mail = mailOf([...HEAD, ...body]);
    const before = await parseMail(mail, false);
    assert.ok(before.text.includes(TEXT), `control: ${before.text}`);
    const after = await parseMail(redact(mail), false);
    assert.equal(after.text, 'Hear: [forgotten] Good.');
    const others = { text: '', firstLine: '' };
    assert.deepEqual({ ...after, ...others }, { ...before, ...others });
  });

  test(`a text ${name} is found in a part of a part`, async () => {
    const kept = part('text/plain; name="x.txt"', 'base64', base64('Another text, to be kept.'));
    const mail = mailOf([
      ...HEAD,
      'Content-Type: multipart/mixed; boundary="outer=1"',
      '',
      'For old programs.',
      '--outer=1',
      'Content-Type: multipart/alternative; boundary=inner',
      '',
      '--inner',
      ...body,
      '--inner--',
      '--outer=1',
      'Content-Disposition: attachment; filename=x.txt',
      ...kept,
      '--outer=1--',
      '',
    ]);
    const after = await parseMail(redact(mail), true);
    assert.equal(after.text, 'Hear: [forgotten] Good.');
    const [attachment] = after.attachments;
    assert.equal(Buffer.from(attachment!.content!).toString(), 'Another text, to be kept.');
  });
}

test('a text in a subject, an attachment, a forwarded mail, and around the parts is found', async () => {
  const mail = mailOf([
    'From: ann@example.org',
    `Subject: ${encodeText(`Re: ${TEXT}`).replaceAll('\n', '\r\n')}`,
    'Content-Type: multipart/mixed; boundary=b',
    '',
    `Before: ${TEXT}`,
    '--b',
    'Content-Disposition: attachment; filename=notes.md',
    ...part('text/markdown', 'base64', base64(`# Notes\n\n${TEXT}\n`)),
    '--b',
    'Content-Disposition: attachment; filename=x.bin',
    ...part(
      'application/octet-stream',
      'base64',
      base64(Buffer.from(`\xff\xfe\0${TEXT}`, 'latin1')),
    ),
    '--b',
    'Content-Type: message/rfc822',
    '',
    `Subject: ${encodeText(TEXT).replaceAll('\n', '\r\n')}`,
    '',
    `Forwarded: ${TEXT}`,
    '--b--',
    `After: ${TEXT}`,
  ]);
  const redacted = redact(mail);
  assert.doesNotMatch(redacted.toString(), /boathouse/);
  const { subject, attachments } = await parseMail(redacted, true);
  assert.equal(subject, 'Re: [forgotten]');
  const contents = attachments.map(({ content }) => Buffer.from(content!).toString());
  assert.equal(contents[0], '# Notes\n\n[forgotten]\n');
  assert.match(contents[2]!, /^Subject: \[forgotten\]\r?\n\r?\nForwarded: \[forgotten\]/);
  assert.equal(redactLetter(redacted, redactor), undefined, 'nothing is left');
});

test('a text in a charset that cannot be written again goes with its part', async () => {
  const wide = Buffer.from(`Hear: ${TEXT} Good.`, 'utf16le');
  const mail = mailOf([...HEAD, ...part('text/plain; charset=utf-16le', 'base64', base64(wide))]);
  assert.equal((await parseMail(mail, false)).text, `Hear: ${TEXT} Good.`, 'control');
  const redacted = redact(mail).toString();
  assert.ok(redacted.includes(Buffer.from('[forgotten]').toString('base64')));
});

test('a mail without it stays as it is, whatever its form is', () => {
  const piece = fc.constantFrom(
    '\r\n',
    '\r\n\r\n',
    '--b',
    '--b--',
    'Content-Type: multipart/mixed; boundary=b',
    'Content-Type: text/plain; charset=x-unknown',
    'Content-Transfer-Encoding: base64',
    'Subject: =?utf-8?B?w6k=?=',
    'é',
    '=E9=',
    'The key of',
    '\0',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      assert.equal(redactLetter(Buffer.from(pieces.join(''), 'latin1'), redactor), undefined);
    }),
  );
});
