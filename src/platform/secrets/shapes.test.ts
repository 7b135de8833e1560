// Each known form of a secret is redacted, and text that only resembles one stays.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { mayHoldSecret, measureEntropy, redact, SHAPES } from './shapes.ts';

/** Composed here, so that this file itself contains none. */
const mixed = (length: number) =>
  Array.from({ length }, (_, i) => 'a7Kq2ZxP9mB4LrT8vYc3JwE6'[(i * 7 + (i >> 3)) % 24]).join('');
const upper = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.slice(3, 19);
const hex = (length: number) => '0a1b2c3d4e5f6789'.repeat(8).slice(0, length);
const jwt = [{ alg: 'HS256' }, { sub: '1' }]
  .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  .concat(mixed(30))
  .join('.');
const pem = [
  '-----BEGIN RSA PRIVATE',
  ' KEY-----\n',
  mixed(64),
  '\n-----END RSA PRIVATE',
  ' KEY-----',
];

const secrets: [shape: string, secret: string, around?: (secret: string) => string][] = [
  ['private key', pem.join('')],
  ['AWS access key', `AKIA${upper}`],
  ['session cookie', mixed(32), (s) => `Set-Cookie: session_id=${s}; Path=/`],
  ['AWS secret key', mixed(40), (s) => `aws_secret_access_key = ${s}`],
  ['GitHub token', `ghp_${mixed(36)}`],
  ['GitHub token', `github_pat_${mixed(82)}`],
  ['GitLab token', `glpat-${mixed(20)}`],
  ['Slack token', `xoxb-${hex(12)}-${mixed(24)}`],
  ['Slack webhook', `https://hooks.slack.com/services/T0/B0/${mixed(24)}`],
  ['Anthropic key', `sk-ant-api03-${mixed(40)}`],
  ['OpenAI key', `sk-proj-${mixed(40)}`],
  ['Google key', `AIza${mixed(35)}`],
  ['Stripe key', `sk_live_${mixed(24)}`],
  ['npm token', `npm_${mixed(36)}`],
  ['PyPI token', `pypi-AgE${mixed(60)}`],
  ['SendGrid key', `SG.${mixed(22)}.${mixed(43)}`],
  ['Twilio key', `SK${hex(32)}`],
  ['Telegram token', `123456789:AA${mixed(33)}`],
  ['Hugging Face token', `hf_${mixed(34)}`],
  ['DigitalOcean token', `dop_v1_${hex(64)}`],
  ['Vault token', `hvs.${mixed(30)}`],
  ['JSON web token', jwt],
  ['password in a URL', 'hunter22', (s) => `postgres://app:${s}@db.example/x`],
  ['authorization header', mixed(30), (s) => `-H "Authorization: Bearer ${s}"`],
  ['secret', mixed(24), (s) => `"api_key": "${s}"`],
  ['secret', mixed(20), (s) => `PASSWORD=${s}`],
];

describe('redact', () => {
  for (const [shape, secret, around = (s: string) => `before ${s} after`] of secrets) {
    it(`${shape}: ${around('…')}`, () => {
      const found = new Set<string>();
      const shown = redact(around(secret), found);
      assert.ok(!shown.includes(secret), shown);
      assert.equal(shown, around(`[redacted ${shape}]`));
      assert.deepEqual([...found], [shape]);
    });
  }

  it('every row of the table has an example here', () => {
    const shown = new Set(secrets.map(([shape]) => shape));
    assert.deepEqual(
      SHAPES.map(({ name }) => name).filter((name) => !shown.has(name)),
      [],
    );
  });

  const harmless = [
    'the private key is kept elsewhere',
    'const token = readTokenFromEnvironmentFile();',
    'password: string;',
    'secret: process.env.SECRET',
    'api_key: "<your key goes here>"',
    'api-key=xxxxxxxxxxxxxxxxxxxxxxxx',
    'sk-something-that-is-just-a-long-name',
    'https://user@example.com/path:with:colons',
    'https://example.com:8080/a@b',
    `commit ${hex(40)}`,
    `sha256 ${hex(64)}`,
    'eyJhbGciOi.not.a-token',
    'Authorization: see the manual',
    'AKIAshort',
  ];
  for (const text of harmless) {
    it(`leaves: ${text}`, () => assert.equal(redact(text), text));
  }

  it('the quick check never misses what the full one would find', () => {
    for (const [, secret, around = (s: string) => s] of secrets)
      assert.ok(mayHoldSecret(JSON.stringify({ text: around(secret) })));
    fc.assert(
      fc.property(fc.string(), (text) => {
        const once = redact(text);
        assert.equal(redact(once), once);
        if (!mayHoldSecret(text)) assert.equal(once, text);
      }),
    );
  });

  it('stays quick for adversarial text', () => {
    const slow = [
      '-----BEGIN PRIVATE KEY-----',
      'aws secret ',
      'password=',
      'a://b:',
      'authorization: ',
    ];
    const began = performance.now();
    for (const part of slow) redact(part.repeat(20_000));
    assert.ok(performance.now() - began < 20_000);
  });

  it('entropy distinguishes random from repeated', () => {
    assert.equal(measureEntropy('aaaa'), 0);
    assert.equal(measureEntropy('abcd'), 2);
  });
});
