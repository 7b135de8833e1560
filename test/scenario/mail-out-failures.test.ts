// Mail to others that cannot be sent: there is no smarthost, it never takes the mail, or maild is
// away for a while.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { daemonPids } from '../support/kills.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  scriptedModels,
  startScriptedWorld,
} from '../support/scripted-world.ts';
import { smarthostConfig, startSmarthost, type TestSmarthost } from '../support/smarthost.ts';

const SENDER = manifestOf('sender', '{ replicas: 8, tools: { allow: [email.send_external] } }');
const MAIL = { to: ['ann@example.org'], subject: 'Herons', text: 'Seven herons.' };

it('without a smarthost the agent is told which key is missing, and nobody is asked', async () => {
  const world = await startScriptedWorld({ agents: { sender: SENDER } });
  try {
    world.model.on('Send', says(call('email.send_external', MAIL)), ({ results }) =>
      finishes(`Done: ${results.at(-1)}`),
    );
    const { result } = await taskEnded(
      world,
      (await create(world, 'Send', { agent: 'sender' })).id,
    );
    assert.match(result ?? '', /maild\.smarthost is not set/);
    const { approvals } = await world.approvald.listApprovals({ query: {} });
    assert.equal(approvals.length, 0);
  } finally {
    await world.stop();
  }
});

describe('mail to others that fails, split', () => {
  const base = freshDir();
  let world: TestRuntime;
  let model: ScriptedModel;
  let smarthost: TestSmarthost;
  before(async () => {
    const stateDir = join(base, 'state');
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    smarthost = await startSmarthost();
    const caFile = join(stateDir, 'ca.pem');
    writeFileSync(caFile, smarthost.ca);
    model = await startScriptedModel();
    const settings = smarthostConfig(smarthost, caFile, { give_up_s: 4 });
    world = await startRuntime({
      base,
      mode: 'split',
      agents: { sender: SENDER },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        maild: { domain: 'example.com', smarthost: settings },
      }),
    });
  });
  after(async () => {
    await world.remove();
    await model.close();
    await smarthost.close();
    rmSync(base, { recursive: true, force: true });
  });

  const start = async (goal: string, mail: Record<string, unknown>) => {
    model.on(goal, says(call('email.send_external', { ...MAIL, ...mail })), ({ results }) =>
      finishes(`Done: ${results.at(-1)}`),
    );
    const task = await create(world, goal, { agent: 'sender' });
    const { id } = await eventually('an approval', async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
      return approvals.find(({ task_id }) => task_id === task.id);
    });
    const approve = () => makeReviewer(world.approvald).approve({ params: { id }, body: {} });
    return { task, approve };
  };

  it('one that is never accepted is given up; the agent and its person are told', async () => {
    const { task, approve } = await start('Send to full', { to: ['full@example.org'] });
    await approve();
    const { result } = await taskEnded(world, task.id);
    assert.match(result ?? '', /accepted for nobody: full@example\.org: the mailbox is full \(452/);
    const notice = await eventually('the notice', async () => {
      const { mails } = await world.maild.listMail({ query: {} });
      return mails.find(({ from }) => from.startsWith('agentd <postmaster@'));
    });
    const { mail } = await world.maild.readMail({ body: { n: notice.n } });
    assert.match(mail.text, /full@example\.org: not accepted in time; last reply: "452 4\.2\.2/);
  });

  it('while maild is away an approved mail waits, and is sent once', async () => {
    const text = 'Herons of a kill.';
    const { task, approve } = await start('Send at a kill', { text });
    const stopped = daemonPids(world.runtimePid).get('maild')!;
    process.kill(stopped, 'SIGSTOP');
    await approve();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    process.kill(stopped, 'SIGKILL');
    const { result } = await taskEnded(world, task.id);
    assert.match(result ?? '', /"accepted":\["ann@example\.org"\]/);
    assert.equal(smarthost.mailsWith(text).length, 1);
  });
});
