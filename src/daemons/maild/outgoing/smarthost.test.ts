// The smarthost is a real SMTP server on loopback, which refuses, loses replies, or is not what it
// should be.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  type SmarthostOptions,
  smarthostConfig as settingsOf,
  startSmarthost,
  type TestSmarthost,
} from '../../../../test/support/smarthost.ts';
import { type HandedOver, makeHandToSmarthost } from './smarthost.ts';
import { smarthostConfig } from './smarthost-config.ts';

const dir = mkdtempSync(join(tmpdir(), 'smarthost-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const caFile = join(dir, 'ca.pem');

type Handed = { handed: HandedOver; server: TestSmarthost; wasAsked: boolean };

async function hand(
  to: string[],
  {
    options = {},
    settings = {},
    password,
    beforeData = async () => {},
  }: {
    options?: SmarthostOptions;
    settings?: Record<string, unknown>;
    password?: string;
    beforeData?: () => Promise<void>;
  } = {},
): Promise<Handed> {
  const server = await startSmarthost(options);
  writeFileSync(caFile, server.ca);
  const user = password === undefined ? {} : { user: 'agents', password_file: '/none' };
  const config = smarthostConfig.parse(settingsOf(server, caFile, { ...user, ...settings }));
  let wasAsked = false;
  const give = makeHandToSmarthost(config, { name: 'example.org', password });
  const mail = {
    from: 'coder@example.org',
    to,
    letter: 'From: coder@example.org\r\n\r\nSeven herons.\r\n',
    beforeData: async () => {
      wasAsked = true;
      await beforeData();
    },
  };
  const handed = await give(mail, new AbortController().signal);
  await server.close();
  return { handed, server, wasAsked };
}

const ANN = 'ann@example.org';
const repliesOf = ({ handed }: Handed): [string, number, string | null][] =>
  handed.kind === 'replied'
    ? [...handed.replies].map(([to, { code, enhanced }]) => [to, code, enhanced])
    : [];

test('each recipient gets its own reply', async () => {
  const found = await hand([ANN, 'refused@example.org', 'defer-1@example.org']);
  assert.deepEqual(
    repliesOf(found).toSorted((a, b) => a[1] - b[1]),
    [
      [ANN, 250, null],
      ['defer-1@example.org', 451, '4.7.1'],
      ['refused@example.org', 550, '5.1.1'],
    ],
  );
  assert.deepEqual(found.server.mails[0]?.to, [ANN]);
  assert.equal(found.server.mails[0]?.isSecure, true);
});

test('a refusal of all recipients, and of the mail itself, is a reply', async () => {
  const none = await hand(['refused@example.org']);
  assert.deepEqual(repliesOf(none), [['refused@example.org', 550, '5.1.1']]);
  assert.equal(none.wasAsked, false, 'no text was sent');
  assert.deepEqual(repliesOf(await hand(['spam@example.org'])), [
    ['spam@example.org', 554, '5.7.1'],
  ]);
  assert.deepEqual(repliesOf(await hand(['full@example.org'])), [
    ['full@example.org', 452, '4.2.2'],
  ]);
});

test('a reply that is lost after the text is unknown, and a failure before it is not', async () => {
  assert.equal((await hand(['lost@example.org'])).handed.kind, 'unknown');
  const beforeData = () => Promise.reject(new Error('halted'));
  const stopped = await hand([ANN], { beforeData });
  assert.deepEqual([stopped.handed.kind, stopped.server.mails.length], ['not-sent', 0]);
});

test('TLS from the start', async () => {
  const found = await hand([ANN], { options: { secure: true }, settings: { tls: 'implicit' } });
  assert.deepEqual(repliesOf(found), [[ANN, 250, null]]);
  assert.equal(found.server.mails[0]?.isSecure, true);
});

test('nothing is sent without the TLS that is configured, or to a certificate of others', async () => {
  const cases = [
    { options: { plain: true } },
    // Not trusted: the usual certificates only.
    { settings: { tls_ca_file: undefined } },
    { options: { secure: true }, settings: { tls: 'implicit', tls_ca_file: undefined } },
    // Issued for localhost.
    { settings: { host: '127.0.0.1' } },
  ];
  for (const one of cases) {
    const { handed, server, wasAsked } = await hand([ANN], { ...one, password: 'secret' });
    assert.deepEqual(
      [handed.kind, wasAsked, server.mails.length],
      ['not-sent', false, 0],
      JSON.stringify(one),
    );
  }
  const plain = { options: { plain: true }, settings: { tls: 'none' } };
  assert.deepEqual(repliesOf(await hand([ANN], plain)), [[ANN, 250, null]], 'control');
});

test('a wrong password is no reply about the mail; with the right one it is sent', async () => {
  const options = { login: { user: 'agents', password: 'right' } };
  const wrong = await hand([ANN], { options, password: 'wrong' });
  assert.deepEqual([wrong.handed.kind, wrong.server.mails.length], ['not-sent', 0]);
  assert.doesNotMatch(JSON.stringify(wrong.handed), /wrong"/);
  const right = await hand([ANN], { options, password: 'right' });
  assert.equal(right.server.mails[0]?.user, 'agents');
});
