// Tests notices by the operator's program and by webhooks that the receiver can verify. Both are
// retried until delivered, and carry no arguments.
import assert from 'node:assert/strict';
import { createHmac, createPublicKey, verify } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  type ApprovaldTestHost,
  type ApprovaldWorld,
  hostApprovald,
  isCode,
  makeWorld,
} from './testing/host.ts';

let world: ApprovaldWorld;
let host: ApprovaldTestHost | undefined;
const servers: http.Server[] = [];
beforeEach(() => {
  world = makeWorld();
});
afterEach(async () => {
  await host?.stop();
  host = undefined;
  for (const server of servers.splice(0)) server.close().closeAllConnections();
  world.remove();
});

type Post = { headers: http.IncomingHttpHeaders; body: string };

/** Waits in real time: the notice goes through a process or a socket. */
async function waitFor(what: () => boolean): Promise<void> {
  for (let i = 0; i < 3_000 && !what(); i++) await new Promise((done) => setTimeout(done, 10));
  assert.ok(what(), 'timed out');
}

/** Also advances the clock: the event that starts the delay may not have been seen yet. */
function advanceUntil(what: () => boolean): Promise<void> {
  return waitFor(() => {
    if (!what()) world.clock.advance(1_000);
    return what();
  });
}

async function receiver(answer: (n: number) => number): Promise<{ url: string; posts: Post[] }> {
  const posts: Post[] = [];
  const server = http.createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      posts.push({ headers: request.headers, body });
      response.writeHead(answer(posts.length)).end();
    });
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, posts };
}

const content = ({ headers, body }: Post): string =>
  `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;

describe('webhooks', () => {
  it('are signed with the secret that both sides know', async () => {
    const { url, posts } = await receiver(() => 204);
    const secret = Buffer.alloc(32, 7);
    const secret_file = join(world.dir, 'secret');
    writeFileSync(secret_file, `whsec_${secret.toString('base64')}\n`, { mode: 0o600 });
    host = await hostApprovald(world, { webhooks: [{ url, secret_file }] });
    const { approval } = await host.ask();
    await waitFor(() => posts.length === 1);
    const signature = createHmac('sha256', secret).update(content(posts[0]!)).digest('base64');
    assert.equal(posts[0]!.headers['webhook-signature'], `v1,${signature}`);
    const notice = JSON.parse(posts[0]!.body) as {
      type: string;
      data: { approval: { id: string; arguments_bytes: number } };
    };
    assert.equal(notice.type, 'approval.requested');
    assert.equal(notice.data.approval.id, approval.id);
    assert.equal(posts[0]!.body.includes('"target"'), false, 'no arguments are sent');
    assert.equal(posts[0]!.body.includes('+fast'), false, 'no diff is sent');
  });

  it("are signed with approvald's own key otherwise", async () => {
    const { url, posts } = await receiver(() => 200);
    host = await hostApprovald(world, { webhooks: [{ url }] });
    await host.ask();
    await waitFor(() => posts.length === 1);
    const { public_key_pem } = await host.operator.approvalKey({});
    const [version, signature] = String(posts[0]!.headers['webhook-signature']).split(',');
    assert.equal(version, 'v1a');
    const key = createPublicKey(public_key_pem);
    const bytes = Buffer.from(signature!, 'base64');
    assert.equal(verify(null, Buffer.from(content(posts[0]!)), key, bytes), true);
    const forged = { ...posts[0]!, body: posts[0]!.body.replace('high', 'low') };
    assert.equal(verify(null, Buffer.from(content(forged)), key, bytes), false);
  });

  it('are sent again with the same id until they are accepted, also after a restart', async () => {
    const { url, posts } = await receiver((n) => (n < 3 ? 500 : 200));
    host = await hostApprovald(world, { webhooks: [{ url }] });
    await host.ask();
    await waitFor(() => posts.length === 1);
    await host.stop();
    world.clock.advance(5_000);
    host = await hostApprovald(world, { webhooks: [{ url }] });
    await waitFor(() => posts.length === 2);
    await advanceUntil(() => posts.length === 3);
    await new Promise((done) => setTimeout(done, 50));
    world.clock.advance(600_000);
    await new Promise((done) => setTimeout(done, 50));
    assert.equal(posts.length, 3);
    assert.equal(new Set(posts.map(({ headers }) => headers['webhook-id'])).size, 1);
  });

  it('are abandoned after the configured number of attempts', async () => {
    const { url, posts } = await receiver(() => 500);
    host = await hostApprovald(world, { webhooks: [{ url }], webhook_attempts_max: 2 });
    await host.ask();
    await waitFor(() => posts.length === 1);
    await advanceUntil(() => posts.length === 2);
    await new Promise((done) => setTimeout(done, 50));
    world.clock.advance(3_600_000);
    await new Promise((done) => setTimeout(done, 50));
    assert.equal(posts.length, 2);
  });

  it('report each decision', async () => {
    const { url, posts } = await receiver(() => 200);
    host = await hostApprovald(world, { webhooks: [{ url }] });
    const { approval } = await host.ask();
    const params = { id: approval.id };
    await host.alice.escalate({ params, body: {} });
    await host.bob.reject({ params, body: {} });
    await waitFor(() => posts.length === 3);
    const types = posts.map(({ body }) => (JSON.parse(body) as { type: string }).type).sort();
    assert.deepEqual(types, ['approval.decided', 'approval.escalated', 'approval.requested']);
  });

  it('are never sent unencrypted to another host, and need a private secret', async () => {
    const webhooks = [{ url: 'http://example.com/hook' }];
    await assert.rejects(hostApprovald(world, { webhooks }), isCode('bad_config', /unencrypted/));
    const secret_file = join(world.dir, 'secret');
    const url = 'http://127.0.0.1:9/hook';
    writeFileSync(secret_file, 'x'.repeat(40));
    chmodSync(secret_file, 0o644);
    const open = { webhooks: [{ url, secret_file }] };
    await assert.rejects(hostApprovald(world, open), isCode('bad_config', /others could sign/));
    chmodSync(secret_file, 0o600);
    host = await hostApprovald(world, open);
  });
});

describe('the command', () => {
  it('is started without a shell and gets the notice on standard input', async () => {
    const out = join(world.dir, 'out.json');
    const marker = join(world.dir, 'shell-was-here');
    // A shell would run the part after the semicolon.
    const odd = `$(touch ${marker}); touch ${marker}`;
    const script =
      'const fs = require("fs"); let t = ""; process.stdin.on("data", (d) => { t += d; });' +
      'process.stdin.on("end", () => fs.writeFileSync(process.argv[1], ' +
      'JSON.stringify({ t, argv: process.argv.slice(2), env: process.env })));';
    const notice_command = [process.execPath, '-e', script, out, odd];
    host = await hostApprovald(world, { notice_command });
    const { approval } = await host.ask({ summary: `"; touch ${marker}; echo "` });
    await waitFor(() => existsSync(out) && readFileSync(out, 'utf8') !== '');
    const report = JSON.parse(readFileSync(out, 'utf8')) as {
      t: string;
      argv: string[];
      env: Record<string, string>;
    };
    const notice = JSON.parse(report.t) as { data: { approval: { id: string } } };
    assert.equal(notice.data.approval.id, approval.id);
    assert.deepEqual(report.argv, [odd]);
    assert.deepEqual(Object.keys(report.env), ['PATH']);
    assert.equal(existsSync(marker), false);
  });

  it('is killed when it hangs, and a missing program does no harm', async () => {
    const notice_command = ['/bin/sleep', '600'];
    host = await hostApprovald(world, { notice_command, notice_command_timeout_ms: 100 });
    await host.ask();
    await new Promise((done) => setTimeout(done, 300));
    await host.stop();
    host = await hostApprovald(world, { notice_command: ['/no/such/program'] });
    assert.equal((await host.ask()).status, 'pending');
  });
});
