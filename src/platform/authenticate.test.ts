// Authentication: keys and their files, and the Host and Origin headers that are accepted.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Fault } from '../wire/errors.ts';
import {
  assertHostNames,
  authenticateAs,
  authenticateByKey,
  listHostNames,
  loadOperatorKey,
} from './authenticate.ts';

const KEY = 'a-key-that-is-long-enough-to-be-one-0123456789';
const withHeaders = (headers: Record<string, string | string[]>) =>
  ({ headers }) as IncomingMessage;
const catchCode = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Fault).code;
  }
  return 'taken';
};

describe('authenticate: the operator by key', () => {
  const authenticate = authenticateByKey(KEY);

  it('accepts the key as Bearer and as x-api-key', () => {
    for (const headers of [{ authorization: `Bearer ${KEY}` }, { 'x-api-key': KEY }])
      assert.deepEqual(authenticate(withHeaders(headers)), {
        kind: 'operator',
        principal: 'person:operator',
      });
  });

  it('refuses no key, a wrong key, and everything near it', () => {
    const near = [
      {},
      { authorization: KEY },
      { authorization: `Basic ${KEY}` },
      { authorization: `bearer ${KEY}` },
      { authorization: 'Bearer ' },
      { authorization: 'Bearer' },
      { authorization: `Bearer ${KEY} ` },
      { authorization: `Bearer ${KEY.slice(0, -1)}` },
      { authorization: `Bearer ${KEY}x` },
      { authorization: `Bearer ${KEY.toUpperCase()}` },
      { 'x-api-key': '' },
      { 'x-api-key': `${KEY}, ${KEY}` },
      { 'x-api-key': [KEY] as unknown as string },
      { authorization: 'Bearer wrong', 'x-api-key': KEY },
    ];
    for (const headers of near)
      assert.equal(
        catchCode(() => authenticate(withHeaders(headers as Record<string, string>))),
        'unauthenticated',
        JSON.stringify(headers),
      );
  });

  it('never prints a key in a refusal', () => {
    assert.throws(
      () => authenticate(withHeaders({ authorization: 'Bearer tried-this' })),
      (error: Fault) => !JSON.stringify(error.toBody()).match(/tried-this|long-enough/),
    );
  });

  it("uses the person's name that the client claims, if it is valid", () => {
    const person = (name: string) =>
      authenticate(withHeaders({ 'x-api-key': KEY, 'agentd-person': name })).principal;
    assert.equal(person('ann'), 'person:ann');
    assert.equal(person('ann@example.org'), 'person:ann@example.org');
    for (const odd of ['', 'a b', '../x', 'a\nb', 'x'.repeat(65), 'ä', '-a', 'a:b'])
      assert.equal(person(odd), 'person:operator', odd);
  });

  it('a socket made for one caller is that caller, whatever the request claims', () => {
    const caller = { kind: 'operator', principal: 'person:ann' } as const;
    const headers = { authorization: 'Bearer x', 'agentd-person': 'eve' };
    assert.deepEqual(authenticateAs(caller)(withHeaders(headers)), caller);
  });
});

describe('authenticate: over TCP', () => {
  const byKey = authenticateByKey(KEY);
  const names = listHostNames(8080, ['agentd.example']);
  const authenticate = (request: IncomingMessage) => {
    assertHostNames(request, names);
    return byKey(request);
  };
  const asks = (headers: Record<string, string>) =>
    catchCode(() => authenticate(withHeaders({ 'x-api-key': KEY, ...headers })));

  it('accepts its own names as Host and Origin, and no Origin', () => {
    const own = [
      '127.0.0.1:8080',
      'localhost:8080',
      '[::1]:8080',
      'LOCALHOST:8080',
      'agentd.example',
    ];
    for (const host of own) {
      assert.equal(asks({ host }), 'taken', host);
      for (const origin of own)
        for (const scheme of ['http', 'https'])
          assert.equal(asks({ host, origin: `${scheme}://${origin}` }), 'taken', origin);
    }
  });

  it('refuses every other Host, so that DNS rebinding fails', () => {
    const hosts = [
      '',
      'localhost',
      'agentd.example:8080',
      '127.0.0.1',
      '127.0.0.1:80',
      'localhost:8081',
      'evil.example:8080',
      'localhost.evil.example:8080',
      'localhost:8080.evil.example',
      '0.0.0.0:8080',
      'agentd',
      '127.0.0.1:8080:8080',
      '[::]:8080',
      'localhost:8080/',
      'user@localhost:8080',
    ];
    for (const host of hosts) assert.equal(asks({ host }), 'forbidden_origin', host);
    assert.equal(
      catchCode(() => authenticate(withHeaders({ 'x-api-key': KEY }))),
      'forbidden_origin',
    );
  });

  it('refuses every other Origin, the null one too', () => {
    const origins = [
      'null',
      '',
      'http://evil.example',
      'https://localhost',
      'http://localhost:80',
      'http://localhost:8080.evil.example',
      'file://',
      'chrome-extension://abc',
      'ftp://localhost:8080',
      'http://evil.example/http://localhost:8080',
    ];
    for (const origin of origins)
      assert.equal(asks({ host: 'localhost:8080', origin }), 'forbidden_origin', origin);
  });

  it('checks names before the key, and the key in any case', () => {
    assert.equal(
      catchCode(() => authenticate(withHeaders({ host: 'evil.example' }))),
      'forbidden_origin',
    );
    assert.equal(
      catchCode(() => authenticate(withHeaders({ host: 'localhost:8080' }))),
      'unauthenticated',
    );
  });
});

describe('authenticate: the key file', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-k-'));
  after(() => rmSync(dir, { recursive: true, force: true }));

  it('is created on first use, 0600, and stays', () => {
    const file = join(dir, 'a.key');
    const key = loadOperatorKey(file);
    assert.ok(key.length >= 40);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(loadOperatorKey(file), key);
    assert.equal(readFileSync(file, 'utf8'), `${key}\n`);
    assert.notEqual(loadOperatorKey(join(dir, 'b.key')), key);
  });

  it('is refused when others could read or write it', () => {
    const file = join(dir, 'c.key');
    loadOperatorKey(file);
    for (const mode of [0o640, 0o604, 0o620, 0o660, 0o644, 0o777]) {
      chmodSync(file, mode);
      assert.throws(
        () => loadOperatorKey(file),
        (error: Fault) => {
          assert.equal(error.code, 'bad_config');
          assert.match(error.hint, /chmod 600/);
          return true;
        },
      );
    }
    chmodSync(file, 0o400);
    assert.ok(loadOperatorKey(file));
  });

  it('is refused when it is empty or truncated: an empty key would authenticate anyone', () => {
    for (const text of ['', '\n', 'short\n']) {
      const file = join(dir, 'd.key');
      writeFileSync(file, text, { mode: 0o600 });
      assert.throws(() => loadOperatorKey(file), { code: 'bad_config' }, JSON.stringify(text));
    }
  });
});
