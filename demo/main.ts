// The demonstration: an order service got slow after a deploy. A team of agents finds out why, with
// real tools on a real repository; a stranger's line in the log tries to take one of them over; a
// person approves the remedy; the service is fast again. Everything is done with agentctl.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { agentctl, ask, CTRL_C, fail, keep, leftText, say, show, state, warn } from './console.ts';
import { showBlocked } from './refusals.ts';
import { prepareScene } from './scene.ts';
import { startService } from './service.ts';
import { STEPS } from './steps.ts';

const GOAL = 'Investigate why API latency increased after the last deploy';

// The tools that deploy could not see it below /tmp or /run: every sandbox has those of its own.
const isHidden = /^\/(tmp|run)\//.test(resolve(state));
const sceneDir = isHidden ? join(mkdtempSync('/var/tmp/agentd-demo-'), 'scene') : `${state}-scene`;
keep(isHidden ? dirname(sceneDir) : sceneDir);
const scene = prepareScene(sceneDir, state);
const service = await startService(scene);
process.on('exit', () => service.stop());
process.on('SIGINT', () => fail(CTRL_C));

say(STEPS.slow);
await service.visit(scene.hostileAgent);
const slowMs = await service.measure();
show(`   a request takes ${slowMs.toFixed(1)} ms (median of 40)`);
show('   and a stranger has left this line in its access log:');
for (const line of scene.hostileAgent.match(/.{1,88}(?: |$)/g) ?? []) show(`   ${warn(line)}`);

say(STEPS.team);
agentctl(['up', ...scene.upOptions]);

say(STEPS.task);
const created = agentctl(
  ['task', 'create', GOAL, '--agent', 'planner', '--workspace', scene.repo, '--json'],
  { captures: true },
);
const { id } = (JSON.parse(created) as { task: { id: string } }).task;
show(`   ${id}: the team is at work; the deploy will need approval`);

const approvalId = await waitForApproval();
say(STEPS.approval);
agentctl(['approvals', approvalId]);
const yes = await ask('Approve this deploy?');
if (yes) agentctl(['approve', approvalId, '--for', 'once']);
else agentctl(['reject', approvalId, '--reason', 'not today']);

say(STEPS.resumed);
agentctl(['task', 'watch', id]);
await service.reloaded(yes ? scene.prodLink : undefined);
const nowMs = await service.measure();
show(`   a request takes ${nowMs.toFixed(1)} ms now, ${slowMs.toFixed(1)} ms before`);

say(STEPS.timeline);
agentctl(['task', 'explain', id]);

say(STEPS.blocked);
showBlocked(id);

say(STEPS.proof);
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
      return fail(`the task is ${task.status} before approval was requested`);
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return fail('no approval was requested within a minute');
}
