// Settings of the smarthost: what is refused at the start, with what to set instead.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { maildConfig } from '../config.ts';
import { readSmarthostSecrets } from './secrets.ts';
import { portOf } from './smarthost-config.ts';

const dir = mkdtempSync(join(tmpdir(), 'smarthost-config-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const parse = (smarthost: Record<string, unknown>, domain = 'agents.example.org') =>
  maildConfig.parse({ domain, smarthost: { host: 'smtp.example.org', ...smarthost } });

test('a smarthost that would not work, or not be safe, is refused with what to set', () => {
  const dkim = { selector: 'a', key_file: '/k' };
  const cases: [Record<string, unknown>, RegExp, string?][] = [
    [{}, /set maild\.domain or maild\.smarthost\.from/, 'agentd.localhost'],
    [{ tls: 'none' }, /only for this host/],
    [{ user: 'agents' }, /user and its password belong together/],
    [{ password_file: '/p' }, /user and its password belong together/],
    [{ user: 'a', password_file: '/p', password_credential: 'p' }, /not both/],
    [{ dkim: { ...dkim, domain: 'example.com' } }, /cannot sign for a sender/],
    [{ dkim: { selector: 'a', domain: 'example.org' } }, /key_file or key_credential/],
    [{ host: 'smtp.example.org:587' }, /host name/],
    [{ from: 'a@example.org\r\nBcc: b@example.org' }, /mail address/],
    [{ password: 'secret' }, /password/],
  ];
  for (const [smarthost, expected, domain] of cases)
    assert.throws(() => parse(smarthost, domain), expected, JSON.stringify(smarthost));
  for (const domain of ['example.org', 'agents.example.org'])
    assert.equal(parse({ dkim: { ...dkim, domain } }).smarthost?.dkim?.domain, domain, 'control');
  assert.equal(parse({ tls: 'none', host: '127.0.0.1' }).smarthost?.tls, 'none', 'control');
});

test('the port follows from TLS', () => {
  assert.equal(portOf(parse({}).smarthost!), 587);
  assert.equal(portOf(parse({ tls: 'implicit' }).smarthost!), 465);
  assert.equal(portOf(parse({ tls: 'none', host: 'localhost' }).smarthost!), 25);
  assert.equal(portOf(parse({ port: 2525 }).smarthost!), 2525);
});

test('keys and passwords that others could read, or that are too weak, are refused', () => {
  const file = (name: string, text: string, mode = 0o600): string => {
    writeFileSync(join(dir, name), text, { mode });
    return join(dir, name);
  };
  const pem = (key: ReturnType<typeof generateKeyPairSync>['privateKey']): string =>
    key.export({ type: 'pkcs8', format: 'pem' }).toString();
  const weak = pem(generateKeyPairSync('rsa', { modulusLength: 1_024 }).privateKey);
  const strong = pem(generateKeyPairSync('ed25519').privateKey);
  const read = (smarthost: Record<string, unknown>) =>
    readSmarthostSecrets(parse(smarthost).smarthost!, undefined);
  const dkim = (key_file: string) => ({
    dkim: { domain: 'example.org', selector: 'a', key_file },
  });
  const login = (password_file: string) => ({ user: 'agents', password_file });
  assert.throws(() => read(login(file('open', 'secret', 0o644))), /mode 644/);
  assert.throws(() => read(login(file('lines', 'a\nb'))), /one line/);
  assert.throws(() => read(dkim(file('weak', weak))), /not usable/);
  assert.throws(() => read(dkim(file('text', 'no key'))), /no private key/);
  assert.throws(() => read({ user: 'a', password_credential: 'p' }), /no credentials were passed/);
  assert.equal(read(login(file('one', 'secret\n'))).password, 'secret', 'control');
  assert.equal(read(dkim(file('strong', strong))).signer?.algorithm, 'ed25519-sha256', 'control');
});
