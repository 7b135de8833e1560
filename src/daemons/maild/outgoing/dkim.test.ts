// Signatures are verified by dkimpy, a program of Debian that is not ours.
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { test } from 'node:test';
import { verifyDkim } from '../../../../test/support/dkim.ts';
import { writeExternalLetter } from '../rules/external-letter.ts';
import { signMail } from './dkim.ts';

const FACTS = {
  from: { name: 'coder', address: 'coder@example.org' },
  messageId: 'm1@example.org',
  atMs: Date.parse('2026-06-01T10:00:00Z'),
};
const letterOf = (text: string, subject = 'Seven herons'): string =>
  writeExternalLetter({ to: ['ann@example.net'], cc: ['bob@example.net'], subject, text }, FACTS);

const TEXTS = [
  'Seven.',
  'Seven.\n\n\n',
  '\n\n Two  spaces \t and\ttabs \n.\n..dots\nFrom here\n',
  `ﾃｽﾄ ${'long '.repeat(400)}`,
  `${'x'.repeat(2_000)}\n`,
  '=\n = =20\n',
];

const keys = {
  rsa: generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  ed25519: generateKeyPairSync('ed25519'),
};
/** RFC 8463 has the bare key of 32 bytes in the DNS. */
const dnsOf = (type: 'rsa' | 'ed25519', key: KeyObject): string => {
  const der = key.export({ type: 'spki', format: 'der' });
  return (type === 'rsa' ? der : der.subarray(-32)).toString('base64');
};

for (const type of ['rsa', 'ed25519'] as const)
  test(`a mail signed with ${type} verifies, and a changed one does not`, async () => {
    const { privateKey, publicKey } = keys[type];
    const signer = {
      domain: 'example.org',
      selector: 'agentd',
      key: privateKey,
      algorithm: `${type}-sha256`,
    } as const;
    const dns = dnsOf(type, publicKey);
    for (const text of TEXTS)
      for (const subject of ['Seven herons', 'ﾃｽﾄ '.repeat(20)]) {
        const signed = signMail(letterOf(text, subject), signer, FACTS.atMs);
        const { passed, output } = await verifyDkim(signed, dns, type);
        assert.ok(passed, `${JSON.stringify(text.slice(0, 40))}: ${output}`);
      }
    const signed = signMail(letterOf('Seven.'), signer, FACTS.atMs);
    const changes: Record<string, string> = {
      body: signed.replace('Seven.', 'Eight.'),
      subject: signed.replace('Subject: Seven', 'Subject: Eight'),
      'a second From': signed.replace('\r\nFrom:', '\r\nFrom: eve@example.org\r\nFrom:'),
      'a Reply-To': signed.replace('\r\nFrom:', '\r\nReply-To: eve@example.org\r\nFrom:'),
    };
    for (const [what, mail] of Object.entries(changes)) {
      assert.notEqual(mail, signed);
      assert.equal((await verifyDkim(mail, dns, type)).passed, false, what);
    }
  });

test('the lines of a mail are short, seven bits, and end with CR LF', () => {
  for (const text of TEXTS) {
    const letter = letterOf(text, 'ﾃｽﾄ '.repeat(20));
    assert.match(letter, /^[\t\n\r -~]*$/);
    assert.doesNotMatch(letter, /(^|[^\r])\n|\r(?!\n)/);
    for (const line of letter.split('\r\n')) assert.ok(line.length <= 998, `${line.length}`);
  }
});
