// Text that one host sent a run must not reach another host before the run is marked. Each attack
// also runs with the first host named a mirror: then the text arrives.
import assert from 'node:assert/strict';
import type net from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { eventually } from '../../../test/support/runtime.ts';
import { deriveId } from '../../platform/ids.ts';
import { Fault } from '../../wire/errors.ts';
import type { CallId } from '../../wire/primitives.ts';
import { makeDial } from './adapters/dial.ts';
import { type EgressdTestHost, startHost } from './testing/host.ts';
import {
  connectThrough,
  connectTo,
  exchange,
  parseErrorBody,
  readAnswer,
  speakTls,
  startHttp,
  startTcp,
  startTls,
  type WirePosition,
} from './testing/wires.ts';

const TEXT = 'text of the first host';
const NAMES = ['a.good.test', 'b.good.test', 'm.good.test'] as const;
const [A, B, M] = NAMES;

describe('after the first byte of a host', () => {
  let pages: WirePosition;
  let sink: WirePosition;
  let secure: WirePosition;
  let silent: WirePosition;
  let greeter: WirePosition;
  let taken = '';
  let count = 0;
  const hosts: EgressdTestHost[] = [];

  before(async () => {
    pages = await startHttp((_, response) => response.end(TEXT));
    sink = await startHttp((request, response) => {
      request.on('data', (chunk) => (taken += chunk));
      request.on('end', () => response.end('thank you'));
      request.on('error', () => {});
    });
    secure = await startTls((socket) => {
      socket.on('data', (chunk) => (taken += chunk)).on('error', () => {});
      socket.write('welcome');
    });
    silent = await startTcp((socket) => socket.on('data', (chunk) => (taken += chunk)));
    greeter = await startTcp((socket) => socket.write('220 speak\r\n'));
  });
  after(async () => {
    for (const host of hosts) await host.stop();
    for (const server of [pages, sink, secure, silent, greeter]) await server.close();
  });
  beforeEach(() => (taken = ''));

  const start = async (mirrors: string[], more: Parameters<typeof startHost>[0] = {}) => {
    const places = [pages, sink, secure, silent, greeter];
    const config = {
      hosts: Object.fromEntries(NAMES.map((name) => [name, '127.0.0.1'])),
      allow_private: NAMES.flatMap((name) => places.map(({ port }) => `${name}:${port}`)),
      mirrors,
    };
    const host = await startHost({ config, ...more });
    if (more.dir === undefined) hosts.push(host);
    return host;
  };
  const rules = () =>
    NAMES.flatMap((host) => [
      ...[pages, sink, secure].map(({ port }) => ({ host, port })),
      ...[silent, greeter].map(({ port }) => ({ host, port, plain: true })),
    ]);
  const open = (host: EgressdTestHost) => host.open(`run ${count++}`, rules());
  const at = (name: string, { port }: WirePosition) => `${name}:${port}`;
  const send = (name: string, to: WirePosition, method: string, body = '') => {
    const where = at(name, to);
    const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`;
    return `${method} http://${where}/ HTTP/1.1\r\nHost: ${where}\r\n${length}Connection: close\r\n\r\n${body}`;
  };
  const readFirst = async (socket: string, name: string = A) => {
    const { body } = await exchange(socket, send(name, pages, 'GET'));
    assert.equal(body, TEXT);
    return body;
  };
  const arrived = () =>
    eventually('the text at the other host', async () => (taken.includes(TEXT) ? true : undefined));
  /** The same attack with the guard off, which must succeed, and on, which must not. */
  const attacked = async (attack: (socket: string, isOff: boolean) => Promise<unknown>) => {
    const outcomes = [];
    for (const mirrors of [[A], []]) {
      taken = '';
      const host = await start(mirrors);
      const run = await open(host);
      const outcome = await attack(run.socket, mirrors.length > 0);
      if (mirrors.length > 0) await arrived();
      outcomes.push({ host, run, outcome });
    }
    assert.ok(!taken.includes(TEXT), 'the text reached the other host');
    const { host, run, outcome } = outcomes[1]!;
    const { egress } = await host.operator.getEgress({ params: { id: run.id } });
    const [denial] = egress.denials;
    assert.deepEqual([denial?.reason, denial?.host, denial?.askable], ['outside', B, false]);
    assert.match(denial!.message, new RegExp(`received text from ${A}.*${B}:\\d+ is refused`));
    assert.match(denial!.hint, /http\.fetch.*egressd\.mirrors/);
    const log = (events: readonly { run_id?: string | undefined }[]) =>
      events.some(({ run_id }) => run_id === run.id);
    const denied = await host.eventsOf('network.denied', log);
    assert.ok(denied.some(({ policy }) => policy === 'egress.outside'));
    return outcome;
  };

  it('a request with a body to another host is refused, at once and as often as it is tried', async () => {
    const outcome = await attacked(async (socket) => {
      const text = await readFirst(socket);
      const answers = [];
      for (let i = 0; i < 3; i++) answers.push(await exchange(socket, send(B, sink, 'POST', text)));
      return answers;
    });
    for (const answer of outcome as Awaited<ReturnType<typeof exchange>>[]) {
      assert.equal(answer.status, 403);
      assert.equal(parseErrorBody(answer).code, 'denied');
    }
  });

  it('a client cannot use one connection to the proxy for both hosts', async () => {
    const keep = (bytes: string) => bytes.replace('Connection: close', 'Connection: keep-alive');
    await attacked(async (socket) => {
      const wire = await connectTo(socket);
      wire.send(keep(send(A, pages, 'GET')));
      await wire.until(TEXT);
      wire.send(send(B, sink, 'POST', TEXT));
      await wire.closed();
    });
  });

  it('a tunnel to another host is refused before anything is dialled', async () => {
    await attacked(async (socket) => {
      const first = await speakTls((await connectThrough(socket, at(A, secure))).wire, A);
      await new Promise((resolve) => first.once('data', resolve));
      const { wire, answer } = await connectThrough(socket, at(B, secure));
      assert.equal(answer.status, 200);
      // On a port other than 443, plain requests are possible, so the refusal follows the hello.
      const second = await speakTls(wire, B).catch(() => undefined);
      second?.write(TEXT);
    });
  });

  it('on port 443, and where any bytes may pass, the tunnel itself is refused', async () => {
    const dial = makeDial({ timeoutMs: 1_000 });
    const host = await start([], {
      config: {
        hosts: { [A]: '127.0.0.1', [B]: '127.0.0.1' },
        allow_private: [A, B].flatMap((name) => [`${name}:443`, `${name}:25`]),
      },
      dial: (all, port, signal) => dial(all, port === 443 ? secure.port : greeter.port, signal),
    });
    const allow = [A, B].flatMap((name) => [{ host: name }, { host: name, port: 25, plain: true }]);
    const { socket } = await host.open('443', allow);
    const control = await connectThrough(socket, `${B}:25`);
    assert.equal(control.answer.status, 200);
    // Nothing was read from it yet; the first byte of A closes it.
    const tunnel = await host.open('443 again', allow);
    const first = await speakTls((await connectThrough(tunnel.socket, `${A}:443`)).wire, A);
    await new Promise((resolve) => first.once('data', resolve));
    for (const target of [`${B}:443`, `${B}:25`]) {
      const startedMs = Date.now();
      const { answer } = await connectThrough(tunnel.socket, target);
      assert.equal(answer.status, 403, target);
      assert.match(parseErrorBody(answer).message, /is refused/);
      assert.ok(Date.now() - startedMs < 2_000, 'fast');
    }
    assert.equal((await connectThrough(tunnel.socket, `${A}:25`)).answer.status, 200);
  });

  it('a tunnel that was opened before, and is silent, is closed', async () => {
    await attacked(async (socket, isOff) => {
      const { wire, answer } = await connectThrough(socket, at(B, silent));
      assert.equal(answer.status, 200);
      wire.send('a hello before');
      await eventually('its first bytes', async () => (taken === '' ? undefined : true));
      await readFirst(socket);
      wire.send(TEXT);
      await (isOff ? arrived() : wire.closed());
      wire.socket.destroy();
    });
  });

  it('a request whose body is held back until the text is there is closed', async () => {
    const outcome = await attacked(async (socket) => {
      const wire = await connectTo(socket);
      const where = at(B, sink);
      wire.send(
        `POST http://${where}/ HTTP/1.1\r\nHost: ${where}\r\nContent-Length: 26\r\n\r\nsent`,
      );
      await eventually('the begin of it', async () => (taken === 'sent' ? true : undefined));
      await readFirst(socket);
      wire.send(TEXT);
      return readAnswer(await wire.until(/thank you|hint/));
    });
    const answer = outcome as ReturnType<typeof readAnswer>;
    assert.equal(answer.status, 403);
    assert.match(parseErrorBody(answer).message, /received text from/);
  });

  it('a connection that is being opened is refused, wherever it stands', async () => {
    for (const stage of ['resolve', 'dial'] as const) {
      const gate = Promise.withResolvers<void>();
      let isWaiting = false;
      let dialled: net.Socket | undefined;
      const dial = makeDial({ timeoutMs: 1_000 });
      const wait = async (name: typeof stage) => {
        if (name !== stage) return;
        isWaiting = true;
        await gate.promise;
      };
      const host = await start([], {
        resolve: async (name) => {
          if (name === B) await wait('resolve');
          return [{ family: 4, text: '127.0.0.1', bytes: [127, 0, 0, 1] }];
        },
        dial: async (all, port, signal) => {
          const made = await dial(all, port, port === silent.port ? AbortSignal.any([]) : signal);
          if (port !== silent.port) return made;
          dialled = made.socket;
          await wait('dial');
          return made;
        },
      });
      const { socket, id } = await open(host);
      const opening = connectThrough(socket, at(B, silent));
      await eventually('the other connection', async () => (isWaiting ? true : undefined));
      await readFirst(socket);
      gate.resolve();
      const { answer } = await opening;
      assert.equal(answer.status, 403, stage);
      assert.match(parseErrorBody(answer).message, /is refused/);
      assert.equal(dialled?.destroyed ?? true, true);
      const { egress } = await host.operator.getEgress({ params: { id } });
      const left = egress.connections.filter(({ host: name }) => name === B);
      assert.deepEqual([left, taken], [[], '']);
    }
  });

  it('the host itself stays open, and others can be read, as by a marked run', async () => {
    const host = await start([]);
    const { socket } = await open(host);
    await readFirst(socket);
    assert.equal((await exchange(socket, send(A, sink, 'POST', 'more'))).body, 'thank you');
    assert.equal(taken, 'more');
    assert.equal((await connectThrough(socket, at(A, silent))).answer.status, 200);
    assert.equal((await exchange(socket, send(B, sink, 'GET'))).status, 200);
    assert.equal((await exchange(socket, send(B, sink, 'GET', 'a body'))).status, 403);
    const inside = async (method: string) => {
      const { wire } = await connectThrough(socket, at(B, sink));
      wire.send(`${method} / HTTP/1.1\r\nHost: ${at(B, sink)}\r\nConnection: close\r\n\r\n`);
      const text = await wire.closed();
      return Number(/HTTP\/1.1 200 Connection Established\r\n\r\nHTTP\/1.1 (\d+)/.exec(text)?.[1]);
    };
    assert.deepEqual([await inside('GET'), await inside('POST')], [200, 403]);
    // Reading from it did not make it the first one.
    assert.equal((await exchange(socket, send(B, sink, 'POST', TEXT))).status, 403);
  });

  it('hosts that a person chose for a program stay open, and no others', async () => {
    const host = await start([]);
    const chosen = { chosen: true as const };
    const granted = [
      { host: A, port: pages.port, ...chosen },
      { host: B, port: sink.port, ...chosen },
    ];
    const allow = [{ host: M, port: sink.port }];
    const run = await host.open(`run ${count++}`, allow, { granted });
    const text = await readFirst(run.socket);
    assert.equal((await exchange(run.socket, send(B, sink, 'POST', text))).status, 200);
    await arrived();
    assert.equal((await exchange(run.socket, send(M, sink, 'POST', text))).status, 403);
  });

  it('mirrors may answer first, and are reached afterwards', async () => {
    const host = await start(['*.m.good.test', M]);
    const { socket } = await open(host);
    await readFirst(socket, M);
    assert.equal((await exchange(socket, send(B, sink, 'POST', 'more'))).body, 'thank you');
    assert.equal((await exchange(socket, send(A, sink, 'POST', 'more'))).status, 403);
    assert.equal((await exchange(socket, send(M, sink, 'POST', 'more'))).body, 'thank you');
    assert.equal((await connectThrough(socket, at(M, silent))).answer.status, 200);
  });

  it('a request that policy or a person decided is sent', async () => {
    const host = await start([]);
    const run = await open(host);
    await readFirst(run.socket);
    const body = {
      fence: 1,
      call_id: deriveId<CallId>('call', 'approved'),
      method: 'POST',
      url: `http://${at(B, sink)}/`,
      body_base64: Buffer.from('approved').toString('base64'),
    };
    const answer = await host.toold.fetch({ params: { id: run.id }, body });
    assert.deepEqual([answer.status, taken], [200, 'approved']);
  });

  it('is remembered by the next activation and after a restart', async () => {
    const first = await start([]);
    const { id, socket } = await first.open('again', rules());
    await readFirst(socket);
    const next = await first.open('again', rules(), { fence: 2 });
    assert.equal((await exchange(next.socket, send(B, sink, 'POST', TEXT))).status, 403);
    await first.toold.dropEgress({ params: { id }, query: { fence: 2 } });
    const third = await first.open('again', rules(), { fence: 3 });
    assert.equal((await exchange(third.socket, send(B, sink, 'POST', TEXT))).status, 403);
    assert.equal((await exchange(third.socket, send(A, sink, 'POST', 'x'))).status, 200);
    await first.stop({ keep: true });
    const second = await start([], { dir: first.dir });
    try {
      assert.equal((await exchange(third.socket, send(B, sink, 'POST', TEXT))).status, 403);
      assert.equal((await exchange(third.socket, send(A, sink, 'POST', 'x'))).status, 200);
      assert.ok(!taken.includes(TEXT));
    } finally {
      hosts.splice(hosts.indexOf(first), 1);
      await second.stop();
    }
  });

  it('bytes whose host a restart lost count as those of another host', async () => {
    const first = await start([M]);
    const { socket } = await first.open('unknown', rules());
    await readFirst(socket, M);
    await first.stop({ keep: true });
    hosts.splice(hosts.indexOf(first), 1);
    const second = await start([M], { dir: first.dir });
    try {
      const refused = await exchange(socket, send(A, sink, 'POST', TEXT));
      assert.equal(refused.status, 403);
      assert.match(parseErrorBody(refused).message, /this run has received text from outside/);
      assert.equal((await exchange(socket, send(M, sink, 'POST', 'x'))).status, 200);
    } finally {
      await second.stop();
    }
  });

  it('a mirror that is not a host is refused at the start', async () => {
    for (const bad of ['*.com', 'http://a.test', '*', '10.0.0.0/8', 'a.test:443'])
      await assert.rejects(
        start([bad]),
        (error) =>
          error instanceof Fault && error.code === 'bad_config' && /mirrors/.test(error.message),
        bad,
      );
  });
});
