// Tests requests for http.fetch: matched like any other, with TLS spoken by egressd, and sent at
// most once if they may change something.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findFiles } from '../../../test/support/find-files.ts';
import { type Clock, systemClock } from '../../platform/clock.ts';
import { deriveId } from '../../platform/ids.ts';
import { toForgottenMemory } from '../../wire/copies.ts';
import type { EgressRule, FetchBody } from '../../wire/egressd.ts';
import { Fault } from '../../wire/errors.ts';
import type { CallId, RunId } from '../../wire/primitives.ts';
import { CERT, KEY } from './testing/cert.ts';
import { type EgressdTestHost, startHost } from './testing/host.ts';
import { startHttp, type WirePosition } from './testing/wires.ts';

const isCode = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;
const runOf = () => deriveId<RunId>('run', 'fetch');
async function eventually(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}
const callId = (name: string) => deriveId<CallId>('call', 'fetch', name);

describe('a fetch', () => {
  const dir = mkdtempSync(join(tmpdir(), 'egress-fetch-'));
  const secure = https.createServer({ cert: CERT, key: KEY }, (request, response) =>
    response.end(`tls ${request.method} ${request.url}`),
  );
  let web: WirePosition;
  let tlsPort: number;
  let host: EgressdTestHost;
  let seen: string[] = [];
  /** Set to abort the next POST after it has arrived. */
  let hang = false;
  /** Responds to the pending request for /slow. */
  let goOn = (): void => {};

  before(async () => {
    writeFileSync(join(dir, 'ca.pem'), CERT);
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    tlsPort = (secure.address() as AddressInfo).port;
    web = await startHttp((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''}`.trim());
      if (hang) return void request.socket.destroy();
      if (request.url === '/slow') {
        goOn = () => response.end('at last');
        return;
      }
      if (request.url === '/big') return void response.end(Buffer.alloc(50_000, 'x'));
      const to = /^\/to\?(.*)$/.exec(request.url ?? '')?.[1];
      if (to !== undefined) return void response.writeHead(302, { location: to }).end();
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on('end', () => {
        response.setHeader('set-cookie', ['a=1', 'b=2']);
        response.end(`${request.method} ${request.url} ${body}`.trim());
      });
    });
    host = await startHost({ config: configOf() });
  });
  after(async () => {
    await host.stop();
    await web.close();
    secure.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const configOf = () => ({
    hosts: { 'good.test': '127.0.0.1', 'other.test': '127.0.0.1', 'bad.test': '127.0.0.1' },
    allow_private: ['good.test', 'other.test', 'bad.test'].flatMap((name) => [
      `${name}:${web.port}`,
      `${name}:${tlsPort}`,
    ]),
    tls_ca_file: join(dir, 'ca.pem'),
  });
  const rules = (): EgressRule[] => [
    { host: 'good.test', port: web.port },
    { host: 'other.test', port: web.port },
    { host: 'good.test', port: tlsPort, methods: ['GET'], paths: ['/open/*'] },
    { host: 'bad.test', port: tlsPort },
  ];
  const url = (path: string, name = 'good.test') => `http://${name}:${web.port}${path}`;
  const fetch = async (name: string, more: Partial<FetchBody>, on = host) => {
    const run = await on.open('fetch', rules());
    const body = { fence: 1, call_id: callId(name), method: 'GET', url: url('/'), ...more };
    const answer = await on.toold.fetch({ params: { id: run.id }, body });
    return { ...answer, text: Buffer.from(answer.body_base64, 'base64').toString() };
  };

  it('returns the response', async () => {
    const { status, text, headers } = await fetch('get', { url: url('/x?y') });
    assert.deepEqual([status, text], [200, 'GET /x?y']);
    assert.equal(headers['set-cookie'], 'a=1, b=2');
    const [allowed] = (await host.eventsOf('network.allowed')).filter(
      (event) => event.call_id === callId('get'),
    );
    assert.equal(allowed?.data?.kind, 'fetch');
  });

  it('speaks TLS itself, so that methods and paths are checked', async () => {
    const base = `https://good.test:${tlsPort}`;
    assert.equal((await fetch('tls', { url: `${base}/open/x` })).text, 'tls GET /open/x');
    for (const [i, [method, path]] of [
      ['GET', '/closed'],
      ['GET', '/open/%2e%2e%2fclosed'],
      ['POST', '/open/x'],
    ].entries())
      await assert.rejects(
        fetch(`tls ${i}`, { method: method!, url: base + path }),
        isCode('denied'),
      );
    const body_base64 = Buffer.from('what it knows').toString('base64');
    const full = fetch('full', { url: `${base}/open/x`, body_base64 });
    await assert.rejects(full, isCode('denied'));
    // The certificate is not for this name.
    const other = fetch('cert', { url: `https://bad.test:${tlsPort}/` });
    await assert.rejects(other, isCode('unreachable'));
  });

  it('may go beyond the rules if its caller decided so, for this request only', async () => {
    const base = `https://good.test:${tlsPort}`;
    const post = { method: 'POST', url: `${base}/open/x` };
    const decided = { host: 'good.test', port: tlsPort, methods: ['POST'] };
    assert.equal((await fetch('decided', { ...post, decided })).text, 'tls POST /open/x');
    await assert.rejects(fetch('undecided', post), isCode('denied'), 'decided for that one only');
    const elsewhere = { ...post, decided: { ...decided, host: 'else.test' } };
    await assert.rejects(fetch('elsewhere', elsewhere), isCode('denied'));
    const led = { url: url(`/to?${base}/closed`), decided: { ...decided, methods: ['GET'] } };
    await assert.rejects(fetch('led', led), isCode('denied'), 'the rules decide about a redirect');
  });

  it('follows redirects only to allowed targets', async () => {
    const authorization = 'Bearer secret';
    seen = [];
    const there = await fetch('redirect', {
      url: url(`/to?${url('/end', 'other.test')}`),
      headers: { Authorization: authorization },
    });
    assert.equal(there.url, url('/end', 'other.test'));
    assert.match(seen[0]!, /Bearer secret/);
    assert.equal(seen[1], 'GET /end', 'a key for one host is not sent to another');
    const inside = fetch('inside', { url: url('/to?http://169.254.169.254/latest') });
    await assert.rejects(inside, isCode('denied'));
    const file = fetch('file', { url: url('/to?file:///etc/passwd') });
    await assert.rejects(file, isCode('denied'));
    const stay = await fetch('stay', { url: url('/to?/x'), redirects_max: 0 });
    assert.deepEqual([stay.status, stay.headers.location], [302, '/x']);
    const loop = await fetch('loop', { url: url('/to?/to'), redirects_max: 1 });
    assert.equal(loop.text, 'GET /to');
  });

  it('reads no more of a response than requested', async () => {
    const { text, truncated, size_bytes } = await fetch('big', {
      url: url('/big'),
      response_bytes_max: 1_000,
    });
    assert.deepEqual([text.length, truncated, size_bytes], [1_000, true, 1_000]);
  });

  it('is sent once, too, when its redirect is denied', async () => {
    seen = [];
    const led = { method: 'POST', url: url('/to?http://169.254.169.254/') };
    const isSent = (error: Fault) => error.code === 'denied' && error.details?.sent === true;
    await assert.rejects(fetch('led astray', led), isSent);
    await assert.rejects(fetch('led astray', led), isCode('conflict'));
    assert.deepEqual(seen, ['POST /to?http://169.254.169.254/']);
  });

  it('is sent once per call if it may change something', async () => {
    const body_base64 = Buffer.from('pay').toString('base64');
    const pay = { method: 'POST', url: url('/pay'), body_base64 };
    seen = [];
    const [first, beside] = await Promise.all([fetch('pay', pay), fetch('pay', pay)]);
    const again = await fetch('pay', pay);
    assert.deepEqual(seen, ['POST /pay']);
    assert.deepEqual([first.text, beside.text, again.text], Array(3).fill('POST /pay pay'));
    assert.deepEqual([first.recorded, again.recorded], [false, true]);
    const changed = fetch('pay', { ...pay, url: url('/pay-more') });
    await assert.rejects(changed, isCode('idempotency_mismatch'));
    assert.deepEqual(seen, ['POST /pay']);
  });

  it('says so when it is unknown whether it was carried out', async () => {
    const order = { method: 'POST', url: url('/maybe') };
    hang = true;
    seen = [];
    await assert.rejects(fetch('maybe', order), isCode('unreachable'));
    hang = false;
    await assert.rejects(fetch('maybe', order), isCode('conflict'));
    assert.deepEqual(seen, ['POST /maybe']);
    // A request that was certainly not sent may be sent on a retry.
    const denied = { ...order, url: 'http://evil.test/' };
    await assert.rejects(fetch('never', denied), isCode('denied'));
    await assert.rejects(fetch('never', denied), isCode('denied'));
  });

  it('returns the recorded outcome, and is sent again when a person says it did not happen', async () => {
    const ask = (name: string) => ({ params: { id: runOf(), call_id: callId(name) } });
    const outcomeOf = async (name: string) => (await host.toold.getFetch(ask(name))).outcome;
    const order = { method: 'POST', url: url('/once-more') };
    assert.equal(await outcomeOf('more'), 'none');
    hang = true;
    seen = [];
    await assert.rejects(fetch('more', order), isCode('unreachable'));
    hang = false;
    assert.equal(await outcomeOf('more'), 'unknown');
    await assert.rejects(fetch('more', order), isCode('conflict'));
    assert.deepEqual(await host.toold.forgetFetch(ask('more')), { forgotten: true });
    assert.equal(await outcomeOf('more'), 'none');
    assert.equal((await fetch('more', order)).status, 200);
    assert.deepEqual(seen, ['POST /once-more', 'POST /once-more']);
    // A request that got a response cannot be forgotten.
    assert.deepEqual(await host.toold.forgetFetch(ask('more')), { forgotten: false });
    const { outcome, answer } = await host.toold.getFetch(ask('more'));
    assert.deepEqual([outcome, answer?.status, answer?.recorded], ['answered', 200, true]);
    assert.equal((await fetch('more', order)).recorded, true);
    assert.equal(seen.length, 2);
  });

  it('forgets a response in time, and never that it was sent', async () => {
    let laterMs = 0;
    const now = systemClock();
    const clock: Clock = {
      ...now,
      nowMs: () => now.nowMs() + laterMs,
      at: (ms, fire) => now.at(ms - laterMs, fire),
    };
    const other = await startHost({ config: configOf(), clock });
    try {
      const post = (name: string) => fetch(name, { method: 'POST', url: url(`/${name}`) }, other);
      const outcomeOf = async (name: string) =>
        (await other.toold.getFetch({ params: { id: runOf(), call_id: callId(name) } })).outcome;
      await post('kept');
      hang = true;
      await assert.rejects(post('lost'), isCode('unreachable'));
      hang = false;
      laterMs = 8 * 86_400_000;
      assert.equal(await outcomeOf('kept'), 'answered');
      seen = [];
      await post('much-later');
      assert.deepEqual(
        [await outcomeOf('kept'), await outcomeOf('lost'), await outcomeOf('much-later')],
        ['unknown', 'unknown', 'answered'],
      );
      for (const name of ['kept', 'lost']) await assert.rejects(post(name), isCode('conflict'));
      assert.deepEqual(seen, ['POST /much-later']);
    } finally {
      await other.stop();
    }
  });

  it('waits for a request in flight before it returns the outcome', async () => {
    const order = { method: 'POST', url: url('/slow') };
    const sending = fetch('slow post', order);
    await eventually(() => seen.includes('POST /slow'));
    const recorded = host.toold.getFetch({ params: { id: runOf(), call_id: callId('slow post') } });
    goOn();
    assert.equal((await recorded).outcome, 'answered');
    assert.equal((await sending).status, 200);
  });

  it('says that it was sent when no response arrives in time', async () => {
    const order = { method: 'POST', url: url('/slow'), time_ms_max: 1_000 };
    const isSent = (error: Fault) => error.code === 'unreachable' && error.details?.sent === true;
    await assert.rejects(fetch('late', order), isSent);
    const read = fetch('late read', { ...order, method: 'GET' });
    await assert.rejects(read, (error: Fault) => error.details?.sent === undefined);
  });

  it('keeps no answer with a forgotten text', async () => {
    const text = 'The boathouse key lies under the third stone.';
    const body_base64 = Buffer.from(text).toString('base64');
    const other = {
      method: 'POST',
      url: url('/other'),
      body_base64: Buffer.from('x').toString('base64'),
    };
    await fetch('to forget', { method: 'POST', url: url('/echo'), body_base64 });
    await fetch('to keep', other);
    const answerOf = async (name: string) => {
      const params = { id: runOf(), call_id: callId(name) };
      const { answer } = await host.toold.getFetch({ params });
      return { text: Buffer.from(answer!.body_base64, 'base64').toString(), answer: answer! };
    };
    assert.equal((await answerOf('to forget')).text, `POST /echo ${text}`, 'control');
    const forgotten = [toForgottenMemory(deriveId('memory', 'egress'), [text])];
    const erased = await host.toold.eraseCopies({ body: { forgotten } });
    assert.deepEqual([erased.found, erased.cursor], [1, null]);
    const after = await answerOf('to forget');
    assert.deepEqual([after.text, after.answer.size_bytes], ['POST /echo [forgotten]', 22]);
    assert.equal((await answerOf('to keep')).text, 'POST /other x');
    assert.equal((await host.toold.eraseCopies({ body: { forgotten } })).found, 0);
    const kept = Buffer.from(`POST /echo ${text}`).toString('base64');
    assert.deepEqual(findFiles(host.dir, kept), []);
  });

  it('sets no header that is reserved', async () => {
    const bad: Record<string, string>[] = [
      { Host: 'evil.test' },
      { 'Content-Length': '5' },
      { 'Transfer-Encoding': 'chunked' },
      { 'Proxy-Authorization': 'x' },
      { 'X-HTTP-Method-Override': 'DELETE' },
      { x_original_url: '/admin' },
      { 'X-A': 'b\r\nX-C: d' },
      { 'X\r\nY': 'z' },
    ];
    for (const [i, headers] of bad.entries())
      await assert.rejects(fetch(`header ${i}`, { headers }), isCode('bad_request'));
  });

  it('ends at its timeout, and belongs to the newest activation', async () => {
    const slow = await startHttp(() => undefined);
    const own = await startHost({
      config: { hosts: { 'good.test': '127.0.0.1' }, allow_private: [`good.test:${slow.port}`] },
    });
    try {
      const run = await own.open('slow', [{ host: 'good.test', port: slow.port }], { fence: 2 });
      const ask = (fence: number) =>
        own.toold.fetch({
          params: { id: run.id },
          body: {
            fence,
            call_id: callId('slow'),
            method: 'GET',
            time_ms_max: 200,
            url: `http://good.test:${slow.port}/`,
          },
        });
      await assert.rejects(ask(2), isCode('unreachable'));
      await assert.rejects(ask(1), isCode('stale_fence'));
    } finally {
      await own.stop();
      await slow.close();
    }
  });
});
