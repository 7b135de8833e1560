// Real forms of secrets are found and named, never shown; text that only resembles one passes.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findSecrets } from './find-secrets.ts';
import { findKeptSecrets } from './kept-rules.ts';

/** Composed here, so that this file itself contains none. */
const letters = (length: number, alphabet: string) =>
  Array.from({ length }, (_, i) => alphabet[(i * 7 + (i >> 3) * 5) % alphabet.length]).join('');
const mixed = (length: number) => letters(length, 'a7Kq2ZxP9mB4LrT8vYc3JwE6');
const lower = (length: number) => letters(length, 'a7kq2zxp9mb4lrt8vyc3jwe6');
const hex = (length: number) => letters(length, '0a1b2c3d4e5f6789');
const upper = (length: number) => letters(length, 'A7KQ2ZXP4MB5LRT3VYC6JWE');

const secrets: [kind: string, text: string][] = [
  ['1password secret key', 'A3-H7KQ2Z-XP4MB5LRT3V-YC6JW-E8NDS-G9UFA'],
  ['age secret key', `AGE-SECRET-KEY-1${letters(58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L')}`],
  ['aws access token', `aws_access_key_id = AKIA${upper(16)}`],
  ['alibaba access key id', `LTAI${lower(20)}`],
  ['databricks api token', `dapi${hex(32)}`],
  ['digitalocean pat', `dop_v1_${hex(64)}`],
  ['doppler api token', `dp.pt.${lower(43)}`],
  ['dynatrace api token', `dt0c01.${lower(24)}.${lower(64)}`],
  ['flyio access token', `fo1_${mixed(43)}`],
  ['gitlab pat', `glpat-${mixed(20)}`],
  ['grafana service account token', `glsa_${mixed(32)}_${hex(8)}`],
  ['heroku api key v2', `HRKU-AA${mixed(58)}`],
  ['huggingface access token', `hf_${letters(34, 'aQkZzXpPmBbLrTvYcJwE')}`],
  ['linear api key', `lin_api_${lower(40)}`],
  ['mailchimp api key', `mailchimp_key = "${hex(32)}-us20"`],
  ['new relic user api key', `new_relic key: NRAK-${letters(27, 'abcdefghij0123456789')}`],
  ['notion api token', `ntn_${letters(11, '39472816')}${mixed(35)}`],
  ['perplexity api key', `pplx-${mixed(48)}`],
  ['postman api token', `PMAK-${hex(24)}-${hex(34)}`],
  ['pulumi api token', `pul-${hex(40)}`],
  ['sendinblue api token', `xkeysib-${hex(64)}-${lower(16)}`],
  ['shopify access token', `shpat_${hex(32)}`],
  ['square access token', `sq0atp-${mixed(22)}`],
  ['telegram bot api token', `telegram: 123456789:A${mixed(34)}`],
  ['generic api key', `internal_service_token = "${mixed(36)}"`],
  [
    'private key',
    `-----BEGIN EC PRIVATE${' KEY-----'}\n${mixed(64)}\n-----END EC PRIVATE KEY-----`,
  ],
  ['password', 'The password for the staging router is Tr0ub4dor&3, ask Tom.'],
  ['session cookie', `Cookie: theme=dark; session_id=${mixed(32)}`],
  ['password in a URL', `postgres://app:${lower(12)}@db.internal/app`],
];

const harmless = [
  'The build is green after the cache key was changed to include the lock file.',
  'password = os.environ["PASSWORD"]',
  'api_key: %API_KEY%',
  'const token = await getToken(request);',
  'The token of the session expires after 30 minutes; the key is rotated weekly.',
  `commit ${hex(40)}`,
  `sha256:${hex(64)}`,
  'id 014df517-39d1-4453-b7b3-9930c563627c',
  'export API_KEY=your_api_key_here',
  'key: value\naccess: public\nauth: none',
  'monkey=business turkey=sandwich keyboard_layout=us-international',
  'see https://example.com/oauth/token?grant_type=client_credentials',
  'The password is wrong; a pin: none. The passphrase of 2024 is forgotten.',
  'Cookie: theme=dark; lang=en-GB; session=none',
  'パスワードは金庫にあります',
];

describe('secrets', () => {
  for (const [kind, text] of secrets)
    it(`finds: ${kind}`, () => {
      for (const around of [text, `Note to self:\n${text}\n`, `"${text}"`])
        assert.ok(findSecrets(around).includes(kind), `${findSecrets(around)}`);
    });
  for (const text of harmless)
    it(`lets pass: ${text.slice(0, 60)}`, () => assert.deepEqual(findSecrets(text), []));

  it('finds one in the middle of a long text, and in time', () => {
    const filler = 'The key of the door is under the mat, and the access token is not. '.repeat(
      10_000,
    );
    assert.deepEqual(findSecrets(filler), []);
    assert.ok(
      findSecrets(`${filler} hf_${letters(34, 'aQkZzXpPmBbLrTvYcJwE')} ${filler}`).length > 0,
    );
  });

  it('gives up on a text that was made to be slow, and says so', () => {
    const began = performance.now();
    assert.equal(findKeptSecrets('meraki_a'.repeat(2_000_000)), undefined);
    assert.ok(findSecrets('meraki_a'.repeat(2_000_000)).includes('unchecked text'));
    assert.ok(performance.now() - began < 60_000);
  });
});
