// Tests a run's egress from opening to closing: fences, tightened rules, grants, budgets, floods of
// denials, restarts, and an unavailable audit log.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../../../test/support/runtime.ts';
import { manualClock } from '../../platform/clock.ts';
import { Fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { type EgressdTestHost, startHost } from './testing/host.ts';
import {
  connectThrough,
  connectTo,
  exchange,
  parseErrorBody,
  startHttp,
  startTcp,
  type WirePosition,
} from './testing/wires.ts';

const isCode = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;
const get = (authority: string, path = '/') =>
  `GET http://${authority}${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`;

describe("a run's egress", () => {
  let echo: WirePosition;
  let web: WirePosition;
  let flood: WirePosition;
  let host: EgressdTestHost;
  const rule = ({ port }: WirePosition, name = 'good.test') => ({ host: name, port, plain: true });
  const at = ({ port }: WirePosition, name = 'good.test') => `${name}:${port}`;
  const configOf = () => ({
    hosts: { 'good.test': '127.0.0.1', 'other.test': '127.0.0.1' },
    allow_private: [echo, web, flood].flatMap((p) => [at(p), at(p, 'other.test')]),
    // Otherwise the answer of one host would close the connections to the other.
    mirrors: ['other.test'],
  });

  before(async () => {
    echo = await startTcp((socket) => socket.pipe(socket));
    web = await startHttp((request, response) => response.end(`you requested ${request.url}`));
    flood = await startTcp((socket) =>
      socket.once('data', () => socket.end(Buffer.alloc(300_000))),
    );
    host = await startHost({ config: configOf() });
  });
  after(async () => {
    await host.stop();
    for (const place of [echo, web, flood]) await place.close();
  });

  const openTunnel = async (socket: string, target: string) => {
    const { wire, answer } = await connectThrough(socket, target);
    assert.equal(answer.status, 200, answer.body);
    wire.send('hello');
    await wire.until('hello');
    return wire;
  };

  it('belongs to the newest activation; an older one is closed and refused', async () => {
    const first = await host.open('fence', [rule(echo)], { fence: 3 });
    const wire = await openTunnel(first.socket, at(echo));
    await assert.rejects(host.open('fence', [rule(echo)], { fence: 2 }), isCode('stale_fence'));
    const second = await host.open('fence', [rule(echo)], { fence: 4 });
    await wire.closed();
    assert.equal(second.cut, 1);
    assert.equal(existsSync(first.socket), false);
    await openTunnel(second.socket, at(echo));
    const drop = (fence: number) =>
      host.toold.dropEgress({ params: { id: second.id }, query: { fence } });
    assert.equal((await drop(3)).dropped, false);
    assert.ok(existsSync(second.socket));
    assert.equal((await drop(4)).dropped, true);
    assert.equal(existsSync(second.socket), false);
    assert.equal((await drop(4)).dropped, false);
    const reading = host.toold.getEgress({ params: { id: second.id } });
    await assert.rejects(reading, isCode('not_found'));
  });

  it('is tightened at once: connections no longer allowed are closed, the others go on', async () => {
    const all = [rule(echo), rule(echo, 'other.test'), rule(web)];
    const run = await host.open('tighten', all);
    const stays = await openTunnel(run.socket, at(echo));
    const goes = await openTunnel(run.socket, at(echo, 'other.test'));
    const { cut } = await host.open('tighten', [rule(echo), rule(web)]);
    assert.equal(cut, 1);
    await goes.closed();
    stays.send(' and more');
    await stays.until('hello and more');
    const { answer } = await connectThrough(run.socket, at(echo, 'other.test'));
    assert.equal(answer.status, 403);
    const isOther = ({ run_id, data }: NewEvent) =>
      run_id === run.id && data?.host === 'other.test';
    const closed = await host.eventsOf('network.closed', (all) => all.some(isOther));
    const statuses = closed.filter(isOther).map(({ status }) => status);
    assert.deepEqual(statuses, ['cut']);
    // Removing `plain` from a rule closes a tunnel that was opened with it.
    await host.open('tighten', [{ host: 'good.test', port: echo.port }]);
    await stays.closed();
  });

  it('is widened by what a person approves, until that expires', async () => {
    const clock = manualClock(Date.parse('2026-06-29T18:00:00Z'));
    const own = await startHost({ config: configOf(), clock });
    try {
      const run = await own.open('grant', []);
      assert.equal((await exchange(run.socket, get(at(web)))).status, 403);
      const { egress } = await own.toold.getEgress({ params: { id: run.id } });
      const [denial] = egress.denials;
      assert.match(denial?.hint ?? '', /network\.request/);
      assert.deepEqual(
        [denial?.host, denial?.port, denial?.askable],
        ['good.test', web.port, true],
      );
      const expires_at = '2026-06-29T18:01:00Z';
      const granted = [rule(web), rule(echo)].map((one) => ({ ...one, expires_at }));
      await own.open('grant', [], { granted });
      assert.equal((await exchange(run.socket, get(at(web)))).status, 200);
      const wire = await openTunnel(run.socket, at(echo));
      clock.advance(60_000);
      await wire.closed();
      assert.equal((await exchange(run.socket, get(at(web)))).status, 403);
    } finally {
      await own.stop();
    }
  });

  it('carries up to its byte limit, also after a restart', async () => {
    let own = await startHost({ config: configOf() });
    const bytes_max = 100_000;
    const rules = [rule(flood), rule(web)];
    const run = await own.open('budget', rules, { bytes_max });
    const { wire, answer } = await connectThrough(run.socket, at(flood));
    assert.equal(answer.status, 200);
    wire.send('go');
    const came = await wire.closed();
    assert.ok(came.length < bytes_max, `${came.length} came`);
    const used = (await own.operator.getEgress({ params: { id: run.id } })).egress;
    assert.ok(used.bytes_sent + used.bytes_received <= bytes_max);
    const isSpent = ({ status }: NewEvent) => status === 'budget';
    const all = await own.eventsOf('network.closed', (events) => events.some(isSpent));
    const closed = all.find(isSpent);
    assert.equal(closed?.data?.bytes_received, used.bytes_received);
    await own.stop({ keep: true });
    own = await startHost({ config: configOf(), dir: own.dir });
    try {
      const after = (await own.operator.getEgress({ params: { id: run.id } })).egress;
      assert.equal(after.bytes_received, used.bytes_received, 'the same socket, the same count');
      await own.open('budget', rules, { bytes_max: after.bytes_received + after.bytes_sent });
      assert.equal(parseErrorBody(await exchange(run.socket, get(at(web)))).code, 'budget');
      await own.open('budget', rules, { bytes_max: 1_000_000 });
      assert.equal((await exchange(run.socket, get(at(web)))).status, 200);
    } finally {
      await own.stop();
    }
  });

  it('closes idle connections', async () => {
    const own = await startHost({ config: { ...configOf(), idle_timeout_ms: 1_000 } });
    try {
      const run = await own.open('idle', [rule(echo)]);
      const wire = await openTunnel(run.socket, at(echo));
      await wire.closed();
      const closed = await own.eventsOf('network.closed', ({ length }) => length > 0);
      assert.deepEqual(
        closed.map(({ status }) => status),
        ['idle'],
      );
    } finally {
      await own.stop();
    }
  });

  it('[R147] counts a flood of denials instead of logging each', async () => {
    const clock = manualClock(Date.parse('2026-06-29T18:00:00Z'));
    const own = await startHost({ clock });
    const sumOf = (events: NewEvent[]) =>
      events.reduce((n, { data }) => n + 1 + Number(data?.repeats ?? 0), 0);
    const counts = async (sumMin: number) => {
      const events = await own.eventsOf('network.denied', (all) => sumOf(all) >= sumMin);
      return { events: events.length, sum: sumOf(events) };
    };
    try {
      const run = await own.open('flood', []);
      for (let i = 0; i < 200; i++) await exchange(run.socket, get('evil.test'));
      assert.deepEqual(await counts(1), { events: 1, sum: 1 });
      clock.advance(1_000);
      assert.deepEqual(await counts(200), { events: 2, sum: 200 });
      for (let i = 0; i < 300; i++) await exchange(run.socket, get(`e${i}.evil.test`));
      clock.advance(1_000);
      const { events, sum } = await counts(500);
      assert.equal(sum, 500);
      assert.ok(events < 120, `${events} events`);
      const { egress } = await own.toold.getEgress({ params: { id: run.id } });
      assert.equal(egress.denied, 500);
      assert.ok(egress.denials.length <= 64);
      assert.equal(egress.denials[0]?.host, 'e299.evil.test');
    } finally {
      await own.stop();
    }
  });

  it('opens nothing that cannot be recorded', async () => {
    let dialled = 0;
    const own = await startHost({
      config: configOf(),
      async dial() {
        dialled++;
        throw new Error('must not be called');
      },
    });
    try {
      const run = await own.open('audit', [rule(web)]);
      own.audit.beforeAppend = () => {
        throw new Error('the disk is full');
      };
      const answer = await exchange(run.socket, get(at(web)));
      assert.equal(parseErrorBody(answer).code, 'audit_unavailable');
      assert.equal(dialled, 0);
      own.audit.beforeAppend = () => {};
      await eventually('the log to take events', async () => {
        await exchange(run.socket, get(at(web)));
        return dialled > 0 ? true : undefined;
      });
    } finally {
      own.audit.beforeAppend = () => {};
      await own.stop();
    }
  });

  it('after a crash has its sockets again, and open connections are logged as closed', async () => {
    const own = await startHost({ config: configOf() });
    const dir = mkdtempSync(join(tmpdir(), 'egressd-'));
    try {
      const run = await own.open('crash', [rule(echo), rule(web)]);
      await openTunnel(run.socket, at(echo));
      const [opened] = await own.eventsOf('network.allowed');
      cpSync(join(own.dir, 'state'), join(dir, 'state'), { recursive: true });
      const next = await startHost({ config: configOf(), dir });
      try {
        const closed = await next.eventsOf('network.closed', ({ length }) => length > 0);
        const ids = closed.map(({ id, status }) => [id.split('.')[0], status]);
        assert.deepEqual(ids, [[opened?.id.split('.')[0], 'lost']]);
        const { egress } = await next.toold.getEgress({ params: { id: run.id } });
        assert.equal((await exchange(egress.socket, get(at(web)))).status, 200);
      } finally {
        await next.stop();
      }
    } finally {
      await own.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it('is closed while halted', async () => {
    const own = await startHost({ config: configOf() });
    try {
      const run = await own.open('halt', [rule(echo), rule(web)]);
      const wire = await openTunnel(run.socket, at(echo));
      const file = join(own.dir, 'state', 'HALT');
      writeFileSync(file, 'stop\n');
      await wire.closed();
      assert.equal(parseErrorBody(await exchange(run.socket, get(at(web)))).code, 'halted');
      rmSync(file);
      assert.equal((await exchange(run.socket, get(at(web)))).status, 200);
    } finally {
      await own.stop();
    }
  });

  it('says why a target does not respond', async () => {
    const closed = await startTcp(() => undefined);
    await closed.close();
    const own = await startHost({
      config: { hosts: { 'good.test': '127.0.0.1' }, allow_private: [at(closed)] },
    });
    try {
      const run = await own.open('gone', [rule(closed)]);
      assert.equal(parseErrorBody(await exchange(run.socket, get(at(closed)))).code, 'unreachable');
      const { answer } = await connectThrough(run.socket, at(closed));
      assert.equal(answer.status, 502);
      const { egress } = await own.toold.getEgress({ params: { id: run.id } });
      assert.equal(egress.open, 0);
    } finally {
      await own.stop();
    }
  });

  it('serves the requests of one connection one after another', async () => {
    const run = await host.open('keep', [rule(web)]);
    const wire = await connectTo(run.socket);
    for (const path of ['/1', '/2', '/3']) {
      wire.send(`GET http://${at(web)}${path} HTTP/1.1\r\nHost: ${at(web)}\r\n\r\n`);
      await wire.until(`you requested ${path}`);
    }
    wire.socket.destroy();
    const opened = (await host.eventsOf('network.allowed')).filter((e) => e.run_id === run.id);
    assert.equal(opened.length, 1, 'one connection, one event');
  });

  it('opens up to a number of connections at once, and more only after a delay', async () => {
    const clock = manualClock(Date.parse('2026-06-29T18:00:00Z'));
    const own = await startHost({ config: configOf(), clock });
    try {
      const run = await own.open('fast', [rule(echo)]);
      const statuses: number[] = [];
      const tryOnce = async () => {
        const { wire, answer } = await connectThrough(run.socket, at(echo));
        wire.socket.destroy();
        statuses.push(answer.status);
      };
      for (let i = 0; i < 260; i++) await tryOnce();
      assert.deepEqual(new Set(statuses.slice(0, 250)), new Set([200]));
      assert.equal(statuses.at(-1), 503);
      clock.advance(1_000);
      await tryOnce();
      assert.equal(statuses.at(-1), 200);
    } finally {
      await own.stop();
    }
  });

  it('a refusal reaches a client that is still sending', async () => {
    const run = await host.open('body', []);
    const wire = await connectTo(run.socket);
    wire.send(
      'POST http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 4000000\r\n\r\n',
    );
    wire.send(Buffer.alloc(2_000_000));
    await wire.until('is not among the hosts');
    wire.send(Buffer.alloc(2_000_000));
    wire.send('GET http://other.evil.test/ HTTP/1.1\r\nHost: other.evil.test\r\n\r\n');
    await wire.until('other.evil.test is not among');
    wire.socket.destroy();
  });

  it('refuses invalid rules and configuration', async () => {
    await assert.rejects(host.open('bad', [{ host: '127.1' }]), isCode('bad_request'));
    for (const config of [
      { allow_private: ['good.test'] },
      { allow_private: ['0x7f.1:80'] },
      { hosts: { 'good.test': 'localhost' } },
      { hosts: { 'a b': '127.0.0.1' } },
      { tls_ca_file: '/nowhere' },
    ])
      await assert.rejects(startHost({ config }), isCode('bad_config'), JSON.stringify(config));
  });

  it('lets a tunnel carry only TLS, unless a rule says so', async () => {
    const run = await host.open('tls', [{ host: 'good.test', port: echo.port }]);
    const { wire, answer } = await connectThrough(run.socket, at(echo));
    assert.equal(answer.status, 200);
    wire.send('SSH-2.0-x\r\n');
    const text = await wire.closed();
    assert.match(text, /is not TLS/);
    assert.doesNotMatch(text, /SSH/);
  });

  it('the error for a run that has read text from outside says what would help', async () => {
    const rules = [{ host: 'good.test', port: web.port, methods: ['GET'] }];
    const post =
      `POST http://${at(web)}/ HTTP/1.1\r\nHost: ${at(web)}\r\n` +
      'Content-Length: 0\r\nConnection: close\r\n\r\n';
    const refusalOf = async (name: string, labels: 'outside'[]) => {
      const run = await host.open(name, rules, { labels });
      const said = parseErrorBody(await exchange(run.socket, post));
      const { egress } = await host.operator.getEgress({ params: { id: run.id } });
      return { said, askable: egress.denials.map(({ askable }) => askable) };
    };
    const marked = await refusalOf('marked', ['outside']);
    assert.match(marked.said.message, /has read text from outside .* may not send POST/);
    assert.match(marked.said.hint, /http\.fetch, and a person decides/);
    assert.deepEqual(marked.askable, [false]);
    const other = await refusalOf('unmarked', []);
    assert.match(other.said.hint, /network\.request/);
    assert.deepEqual(other.askable, [true]);
  });
});
