// One more host for a run: requested, approved by a person, stored with the run, and never more
// than rules allow. The test acts as the run; boxes, egress and approvals are real.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { toold } from '../../src/daemons/toold/daemon.ts';
import { hostDaemon } from '../../src/platform/daemon.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import {
  callSocket,
  callTool,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const HANDS = '{ replicas: 9, tools: { allow: [network.external, shell.exec] } }';
const HOSTS = ['docs.example.com', 'other.example.com', 'evil.example.com'];

describe('network.request', () => {
  let world: IdleWorld;
  let site: http.Server;
  let port: number;
  before(async () => {
    site = http.createServer((request, response) => response.end(`${request.method} seen`));
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    ({ port } = site.address() as AddressInfo);
    world = await startIdleWorld({
      agents: { worker: manifestOf('worker', HANDS) },
      egressd: {
        hosts: Object.fromEntries(HOSTS.map((host) => [host, '127.0.0.1'])),
        allow_private: HOSTS.map((host) => `${host}:${port}`),
      },
    });
  });
  after(async () => {
    await world.stop();
    site.close();
  });

  let step = 0;
  const useTool = async (run: LiveRun, tool: string, args: object, callId = run.callId(step++)) => {
    const body = { call_id: callId, tool, arguments: args };
    return callTool(world, run, body);
  };
  const fetch = (run: LiveRun, host: string, more: object = {}) =>
    useTool(run, 'http.fetch', { url: `http://${host}:${port}/`, ...more });
  const request = (host: string) => ({ host, port, reason: 'to read the manual' });
  const pending = (run: LiveRun) =>
    eventually('a pending approval', async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
      return approvals.find(({ task_id }) => task_id === run.taskId);
    });

  /** The run parks on this call, a person decides, the next activation repeats the call. */
  async function callDecided(run: LiveRun, tool: string, args: object, isYes = true) {
    const callId = run.callId(step++);
    const first = await useTool(run, tool, args, callId);
    assert.equal(first.status, 'waiting', JSON.stringify(first));
    const summary = await pending(run);
    const path = runSocketOf(world, 'agentd', run);
    const body = { call_ids: [callId] };
    assert.ok((await callSocket(path, agentdRoutes.runPark, { body })).ok);
    const params = { id: summary.id };
    if (isYes) await makeReviewer(world.approvald).approve({ params, body: { for: 'once' } });
    else await makeReviewer(world.approvald).reject({ params, body: { reason: 'no' } });
    const woken = await eventually('the run to be woken', async () => {
      const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
      const isUp = now.status === 'live' && now.fence > run.fence;
      return isUp && existsSync(runSocketOf(world, 'toold', now)) ? now : undefined;
    });
    const next: LiveRun = { ...run, fence: woken.fence };
    return { run: next, summary, answer: await useTool(next, tool, args, callId) };
  }

  const grantedOf = async (run: LiveRun) => {
    const { egress } = await world.egressd.getEgress({ params: { id: run.id } });
    return egress.granted;
  };

  /** Opens a tunnel as a program would; the program shows only the status. */
  const tunnel = (host: string) => ({
    command:
      `exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT ${host}:${port} HTTP/1.1\\r\\n` +
      `Host: ${host}:${port}\\r\\n\\r\\n' >&3; head -n 1 <&3`,
  });
  const inBash = ({ command }: { command: string }) => ({
    command: `bash -c ${JSON.stringify(command).replaceAll('$', '\\$')} 2>&1`,
  });

  it('a person sees host, port and reason; the approval opens exactly that, for tools and box', async () => {
    const fresh = await world.startRun();
    assert.equal((await fetch(fresh, 'docs.example.com')).status, 'denied');
    const shut = await useTool(fresh, 'shell.exec', inBash(tunnel('docs.example.com')));
    assert.match(String(shut.result?.stdout), /refused|Network is unreachable|No such/);

    const args = request('Docs.Example.com');
    const { run, summary, answer } = await callDecided(fresh, 'network.request', args);
    const permitted = `network.request docs.example.com:${port}`;
    assert.equal(summary.class, permitted, 'a permit for this host does not cover another');
    const { approval } = await world.approvald.getApproval({ params: { id: summary.id } });
    assert.deepEqual(approval.arguments, args);
    assert.deepEqual(Object.keys(approval.would_permit), ['once'], 'no permit covers it');
    assert.match(approval.diff ?? '', new RegExp(`docs\\.example\\.com:${port}\nwhy: to read`));
    assert.deepEqual(answer.result, { host: 'docs.example.com', port, only_reads: false });

    // The box had no egress, and has it now.
    const open = await useTool(run, 'shell.exec', inBash(tunnel('docs.example.com')));
    assert.match(String(open.result?.stdout), /^HTTP\/1\.1 200/);
    assert.equal(open.result?.network_denied, undefined);
    const no = await useTool(run, 'shell.exec', inBash(tunnel('other.example.com')));
    assert.match(String(no.result?.stdout), /^HTTP\/1\.1 403/);
    const [denied] = (no.result?.network_denied ?? []) as Record<string, unknown>[];
    assert.deepEqual([denied?.host, denied?.port], ['other.example.com', port]);
    assert.match(String(denied?.reason), /not among the hosts this run may reach/);
    assert.match(String(denied?.hint), /network\.request/);
    const quiet = await useTool(run, 'shell.exec', { command: 'true' });
    assert.equal(quiet.result?.network_denied, undefined, 'reported once, where it happened');

    const read = await fetch(run, 'docs.example.com');
    assert.equal(read.result?.text, 'GET seen');
    assert.equal((await fetch(run, 'other.example.com')).status, 'denied');
    const elsewhere = `http://docs.example.com:${port + 1}/`;
    assert.equal((await useTool(run, 'http.fetch', { url: elsewhere })).status, 'denied');
    // The run is marked now: it may read there, and sends nothing without approval.
    assert.deepEqual(await grantedOf(run), [
      { host: 'docs.example.com', port, methods: ['GET', 'HEAD'] },
    ]);
    const sent = await fetch(run, 'docs.example.com', { method: 'POST', body: 'x' });
    assert.equal(sent.status, 'waiting');
    const plain = (method: string) =>
      `printf '${method} http://docs.example.com:${port}/ HTTP/1.1\\r\\n` +
      `Host: docs.example.com:${port}\\r\\nContent-Length: 0\\r\\n` +
      `Connection: close\\r\\n\\r\\n' >&3; cat <&3`;
    const through = async (method: string) => {
      const command = `exec 3<>/dev/tcp/127.0.0.1/3128; ${plain(method)}`;
      return (await useTool(run, 'shell.exec', inBash({ command }))).result;
    };
    assert.match(String((await through('GET'))?.stdout), /GET seen/);
    const post = await through('POST');
    assert.doesNotMatch(String(post?.stdout), /POST seen/);
    assert.match(JSON.stringify(post?.network_denied), /may not send POST/);
  });

  it('a POST to it is approved by itself, before and after the run has read outside text', async () => {
    const { run } = await callDecided(
      await world.startRun(),
      ...(['network.request', request('docs.example.com')] as const),
    );
    const post = { url: `http://docs.example.com:${port}/`, method: 'POST', body: 'x' };
    const first = await callDecided(run, 'http.fetch', post);
    assert.equal(first.answer.result?.text, 'POST seen');
    // The response was outside text: a second rule asks for the next one.
    const again = await callDecided(first.run, 'http.fetch', { ...post, body: 'y' });
    assert.equal(again.summary.reversibility, 'externally-reversible');
    assert.equal(again.answer.result?.text, 'POST seen');
  });

  it('a rejection opens nothing, and a host that a rule forbids is denied without asking', async () => {
    const { run, answer } = await callDecided(
      await world.startRun(),
      ...(['network.request', request('docs.example.com'), false] as const),
    );
    assert.equal(answer.status, 'denied');
    assert.equal(answer.error?.code, 'rejected');
    assert.equal((await fetch(run, 'docs.example.com')).status, 'denied');
    const dir = join(world.stateDir, 'policies');
    const file = join(dir, '10-never.cedar');
    const forbid = (host: string) =>
      writeFileSync(
        file,
        `forbid (principal, action == Action::"net.connect", resource == Host::"${host}");\n`,
      );
    mkdirSync(dir, { recursive: true });
    const versionNow = async () => (await world.agentd.getPolicy({})).policy.version;
    const changed = async (change: () => void) => {
      const version = await versionNow();
      change();
      await eventually('the rules', async () => {
        world.clock.advance(600);
        return (await versionNow()) > version ? true : undefined;
      });
    };
    await changed(() => forbid('evil.example.com'));
    const never = await eventually('the rule in force', async () => {
      world.clock.advance(600);
      const got = await useTool(run, 'network.request', {
        ...request('evil.example.com'),
        reason: `try ${step}`,
      });
      return got.status === 'denied' ? got : undefined;
    });
    assert.match(never.error?.message ?? '', /policy does not let worker/);

    // A rule added after the approval applies too.
    const late = await callDecided(
      await world.startRun(),
      'network.request',
      request('docs.example.com'),
    );
    assert.equal((await fetch(late.run, 'docs.example.com')).status, 'completed');
    await changed(() => forbid('docs.example.com'));
    await eventually('the rule in force', async () => {
      world.clock.advance(600);
      return (await fetch(late.run, 'docs.example.com')).status === 'denied' ? true : undefined;
    });
    await changed(() => rmSync(file));
  });

  it('the approved host stays with the run across a toold restart and the next activation, and with no other', async () => {
    const first = await callDecided(
      await world.startRun(),
      'network.request',
      request('docs.example.com'),
    );
    await world.hosted.get('toold')!.stop();
    await hostDaemon(toold, world.options);
    await world.hosted.get('toold')!.begin();
    const open = await useTool(first.run, 'shell.exec', inBash(tunnel('docs.example.com')));
    assert.match(String(open.result?.stdout), /^HTTP\/1\.1 200/);
    const second = await callDecided(first.run, 'network.request', request('other.example.com'));
    assert.deepEqual(
      (await grantedOf(second.run)).map(({ host }) => host),
      ['docs.example.com', 'other.example.com'],
    );
    assert.equal((await fetch(second.run, 'docs.example.com')).result?.text, 'GET seen');
    const other = await world.startRun();
    assert.equal((await fetch(other, 'docs.example.com')).status, 'denied');
  });
});
