// A real mail server in front, as docs/mail.md sets it up: Postfix takes mail by SMTP and hands it
// over by LMTP. It is outside; what no rule permits bounces there, and what cannot be taken waits.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
const DOMAIN = 'agents.example.org';
const RULE = `@id("lmtp") permit (
  principal == External::"mail:lmtp", action == Action::"task.delegate", resource == Agent::"coder");`;

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The services of Postfix that take, queue and hand over mail; nothing leaves this host. */
const SERVICES = `
pickup    unix  n - n 60 1 pickup
cleanup   unix  n - n -  0 cleanup
qmgr      unix  n - n 300 1 qmgr
rewrite   unix  - - n -  - trivial-rewrite
bounce    unix  - - n -  0 bounce
defer     unix  - - n -  0 bounce
trace     unix  - - n -  0 bounce
verify    unix  - - n -  1 verify
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n -  - proxymap
showq     unix  n - n -  - showq
error     unix  - - n -  - error
retry     unix  - - n -  - error
discard   unix  - - n -  - discard
lmtp      unix  - - n -  - lmtp
anvil     unix  - - n -  1 anvil
scache    unix  - - n -  1 scache
postlog   unix-dgram n - n - 1 postlogd
`;

describe('Postfix in front, by LMTP', { skip }, () => {
  const base = freshDir();
  const dir = join(base, 'postfix');
  const policies = join(base, 'state', 'policies');
  let world: TestRuntime;
  let [smtp, lmtp] = [0, 0];
  const postfix = (...words: string[]) =>
    spawnSync(words[0]!, ['-c', dir, ...words.slice(1)], { encoding: 'utf8', timeout: 60_000 });
  before(async () => {
    chmodSync(base, 0o711);
    mkdirSync(policies, { recursive: true, mode: 0o700 });
    writeFileSync(join(policies, 'mail.cedar'), RULE);
    [smtp, lmtp] = [await freePort(), await freePort()];
    const config = { maild: { domain: DOMAIN, lmtp_port: lmtp } };
    world = await startRuntime({ base, agents: TEAM, config: JSON.stringify(config) });
    for (const name of ['', 'queue', 'data']) mkdirSync(join(dir, name), { mode: 0o755 });
    spawnSync('chown', ['postfix', join(dir, 'data')]);
    writeFileSync(join(dir, 'transport'), `${DOMAIN}   lmtp:inet:127.0.0.1:${lmtp}\n`);
    writeFileSync(
      join(dir, 'main.cf'),
      `compatibility_level = 3.6
queue_directory = ${dir}/queue
data_directory = ${dir}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
maillog_file = ${dir}/log
maillog_file_prefixes = ${base}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mx.example.org
mydestination =
alias_maps =
local_recipient_maps =
default_transport = discard:
relay_domains = ${DOMAIN}
transport_maps = hash:${dir}/transport
minimal_backoff_time = 1s
queue_run_delay = 1s
`,
    );
    writeFileSync(join(dir, 'master.cf'), `127.0.0.1:${smtp} inet n - n - - smtpd${SERVICES}`);
    assert.equal(spawnSync('postmap', ['-c', dir, join(dir, 'transport')]).status, 0);
    // Its output may be inherited by daemons, so nobody waits for its end.
    const started = spawn('postfix', ['-c', dir, 'start'], { stdio: 'ignore' });
    const status = await new Promise((resolve) => started.once('exit', resolve));
    assert.equal(status, 0, log());
  });
  after(async () => {
    postfix('postfix', 'stop');
    await world?.remove();
    rmSync(base, { recursive: true, force: true });
  });

  function log(): string {
    try {
      return readFileSync(join(dir, 'log'), 'utf8');
    } catch {
      return 'no log';
    }
  }
  const swaks = (to: string, subject: string) =>
    spawnSync(
      'swaks',
      [
        '--server',
        `127.0.0.1:${smtp}`,
        '--from',
        'ann@example.net',
        '--to',
        to,
        '--header',
        `Subject: ${subject}`,
        '--body',
        'Please.',
      ],
      { encoding: 'utf8', timeout: 30_000 },
    );
  const taskOf = (goal: string) =>
    eventually(`a task about ${goal}`, async () =>
      (await world.agentd.listTasks({ query: { limit: 100 } })).tasks.find((task) =>
        task.goal.startsWith(goal),
      ),
    ).catch((error: unknown) => {
      throw new Error(log(), { cause: error });
    });
  const logHas = (pattern: RegExp) =>
    eventually(
      `the log of Postfix to have ${pattern}`,
      async () => pattern.test(log()) || undefined,
    );

  it('what a rule permits becomes a task of outside', async () => {
    assert.equal(swaks(`coder@${DOMAIN}`, 'Through Postfix').status, 0);
    const task = await taskOf('Through Postfix');
    assert.deepEqual([task.created_by, task.labels], ['external:mail:lmtp', ['outside']]);
    await logHas(/relay=127\.0\.0\.1\[127\.0\.0\.1\]:\d+, .*status=sent \(250/);
  });

  it('what is refused bounces at Postfix, with the reason, and a decision does', async () => {
    assert.equal(swaks(`planner@${DOMAIN}`, 'No rule').status, 0);
    await logHas(/to=<planner@.*status=bounced .*5\.7\.1 no rule permits/);
    assert.equal(swaks(`approvals@${DOMAIN}`, 'approve abcde-fghij').status, 0);
    await logHas(/to=<approvals@.*status=bounced .*5\.7\.1 decisions are taken/);
    assert.equal(swaks(`nobody@${DOMAIN}`, 'Nobody').status, 0);
    await logHas(/to=<nobody@.*status=bounced .*5\.1\.1/);
  });

  it('what comes while the runtime is down waits at Postfix, and is one task', async () => {
    await world.stop();
    assert.equal(swaks(`coder@${DOMAIN}`, 'While it was down').status, 0);
    await logHas(/to=<coder@.*status=deferred/);
    world = await world.restart();
    postfix('postqueue', '-f');
    await taskOf('While it was down');
    const { tasks } = await world.agentd.listTasks({ query: { limit: 100 } });
    assert.equal(tasks.filter(({ goal }) => goal.startsWith('While it was down')).length, 1);
  });
});
