// The demonstration: an order service got slow after a deploy. A team of agents finds out why, with
// real tools on a real repository; a stranger's line in the log tries to take one of them over; a
// person approves the remedy; the service is fast again. Everything is done with agentctl.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { agentctl, ask, CTRL_C, fail, keep, leftText, say, show, state } from './console.ts';
import { tellRefusals } from './refusals.ts';
import { prepareScene } from './scene.ts';
import { startService } from './service.ts';

const GOAL = 'Investigate why API latency increased after the last deploy';

// The tools that deploy could not see it below /tmp or /run: every sandbox has those of its own.
const isHidden = /^\/(tmp|run)\//.test(resolve(state));
const sceneDir = isHidden ? join(mkdtempSync('/var/tmp/agentd-demo-'), 'scene') : `${state}-scene`;
keep(isHidden ? dirname(sceneDir) : sceneDir);
const scene = prepareScene(sceneDir, state);
const service = await startService(scene);
process.on('exit', () => service.stop());
process.on('SIGINT', () => fail(CTRL_C));

say('1. An order service on this machine. Its last deploy made it slow.');
await service.visit(scene.hostileAgent);
const slowMs = await service.measure();
show(`   a request takes ${slowMs.toFixed(1)} ms (median of 40)`);
show('   and a stranger has left a line in its access log:');
show(`   ${scene.hostileAgent.slice(0, 150)}…`);

say('2. A runtime, and a team: planner, ops, coder, tester, deployer. No key, no network.');
agentctl(['up', ...scene.upOptions]);

say('3. One task for the planner.');
const created = agentctl(
  ['task', 'create', GOAL, '--agent', 'planner', '--workspace', scene.repo, '--json'],
  { captures: true },
);
const { id } = (JSON.parse(created) as { task: { id: string } }).task;
show(`   ${id}: the team works; the deployer will need a person`);

const approvalId = await waitForApproval();
say('4. The deploy waits for a person, and holds no process while it does. This is what is asked:');
agentctl(['approvals', approvalId]);
const yes = await ask('Approve this deploy?');
if (yes) agentctl(['approve', approvalId, '--for', 'once']);
else agentctl(['reject', approvalId, '--reason', 'not today']);

say('5. The task goes on.');
agentctl(['task', 'watch', id]);
await service.reloaded(yes ? scene.prodLink : undefined);
const nowMs = await service.measure();
show(`   a request takes ${nowMs.toFixed(1)} ms now, ${slowMs.toFixed(1)} ms before`);

say('6. The story, from the record.');
agentctl(['task', 'explain', id]);

say('7. What was refused on the way, by which rule or by which layer of the kernel.');
tellRefusals(id);

say('8. The proof: the log verifies offline, on a copy, against a checkpoint kept elsewhere.');
const elsewhere = mkdtempSync(join(tmpdir(), 'agentd-demo-copy-'));
writeFileSync(join(elsewhere, 'checkpoint'), agentctl(['audit', 'checkpoint'], { captures: true }));
agentctl(['down']);
cpSync(join(state, 'audit'), join(elsewhere, 'audit'), { recursive: true });
agentctl(['audit', 'verify', join(elsewhere, 'audit'), '--from', join(elsewhere, 'checkpoint')]);
rmSync(elsewhere, { recursive: true });
service.stop();

show(`
Look around in what happened:
  export AGENTD_STATE=${state}
  bin/agentctl ${['up', ...scene.upOptions].join(' ')}
  bin/agentctl task list
A rehearsal played the model. To use a real one: bin/agentctl model add --help
${leftText()}`);
if (yes && nowMs > slowMs / 2) fail(`the service is not faster: ${nowMs.toFixed(1)} ms`);

async function waitForApproval(): Promise<string> {
  for (const until = Date.now() + 60_000; Date.now() < until; ) {
    const told = agentctl(['approvals', '--json'], { captures: true, quiet: true });
    const { approvals } = JSON.parse(told) as { approvals: { id: string; status: string }[] };
    const pending = approvals.find(({ status }) => status === 'pending');
    if (pending !== undefined) return pending.id;
    const { task } = JSON.parse(
      agentctl(['task', 'show', id, '--json'], { captures: true, quiet: true }),
    ) as { task: { status: string } };
    if (['failed', 'canceled', 'completed'].includes(task.status)) {
      agentctl(['task', 'explain', id]);
      return fail(`the task is ${task.status} before anybody was asked`);
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return fail('nobody was asked within a minute');
}
