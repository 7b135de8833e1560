// Runs the demo: an order service got slow after a deploy. A team of agents finds the cause, with
// real tools on a real repository; a prompt injection in the access log tries to hijack one of
// them; a person approves the fix; the service is fast again. Everything is done with agentctl.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { printBlocked } from './blocked.ts';
import {
  agentctl,
  confirm,
  fail,
  formatCleanupHint,
  highlight,
  INTERRUPTED,
  keepDir,
  print,
  printHeading,
  state,
} from './console.ts';
import { startService } from './service.ts';
import { prepareDemo } from './setup.ts';
import { STEPS } from './steps.ts';

const GOAL = 'Investigate why API latency increased after the last deploy';

// Every sandbox has its own /tmp and /run, so the deploy tool could not reach a directory there.
const isInPrivateDir = /^\/(tmp|run)\//.test(resolve(state));
const setupDir = isInPrivateDir
  ? join(mkdtempSync('/var/tmp/agentd-demo-'), 'scene')
  : `${state}-scene`;
keepDir(isInPrivateDir ? dirname(setupDir) : setupDir);
const setup = prepareDemo(setupDir, state);
const service = await startService(setup);
process.on('exit', () => service.stop());
process.on('SIGINT', () => fail(INTERRUPTED));

printHeading(STEPS.slow);
await service.sendRequest(setup.hostileUserAgent);
const slowMs = await service.measureMedianMs();
print(`   a request takes ${slowMs.toFixed(1)} ms (median of 40)`);
print('   and a stranger has left this line in its access log:');
for (const line of setup.hostileUserAgent.match(/.{1,88}(?: |$)/g) ?? [])
  print(`   ${highlight(line)}`);

printHeading(STEPS.team);
agentctl(['up', ...setup.upOptions]);

printHeading(STEPS.task);
const created = agentctl(
  ['task', 'create', GOAL, '--agent', 'planner', '--workspace', setup.repo, '--live', '--json'],
  { capturesOutput: true },
);
const { id } = (JSON.parse(created) as { task: { id: string } }).task;
print(`   ${id}: the team is at work; the deploy will need approval`);

const approvalId = await waitForApproval();
printHeading(STEPS.approval);
agentctl(['approvals', approvalId]);
const isApproved = await confirm('Approve this deploy?');
if (isApproved) agentctl(['approve', approvalId, '--for', 'once']);
else agentctl(['reject', approvalId, '--reason', 'not today']);

printHeading(STEPS.resumed);
agentctl(['task', 'watch', id]);
await service.waitForRelease(isApproved ? setup.prodLink : undefined);
const fastMs = await service.measureMedianMs();
print(`   a request takes ${fastMs.toFixed(1)} ms now, ${slowMs.toFixed(1)} ms before`);

printHeading(STEPS.timeline);
agentctl(['task', 'explain', id]);

printHeading(STEPS.blocked);
printBlocked(id);

printHeading(STEPS.proof);
const copyDir = mkdtempSync(join(tmpdir(), 'agentd-demo-copy-'));
writeFileSync(
  join(copyDir, 'checkpoint'),
  agentctl(['audit', 'checkpoint'], { capturesOutput: true }),
);
agentctl(['down']);
cpSync(join(state, 'audit'), join(copyDir, 'audit'), { recursive: true });
agentctl(['audit', 'verify', join(copyDir, 'audit'), '--from', join(copyDir, 'checkpoint')]);
rmSync(copyDir, { recursive: true });
service.stop();

print(`
Explore the recorded run:
  export AGENTD_STATE=${state}
  bin/agentctl ${['up', ...setup.upOptions].join(' ')}
  bin/agentctl task list
The model was a rehearsal. To use a real one: bin/agentctl model add --help
${formatCleanupHint()}`);
if (isApproved && fastMs > slowMs / 2) fail(`the service is not faster: ${fastMs.toFixed(1)} ms`);

async function waitForApproval(): Promise<string> {
  for (const deadlineMs = Date.now() + 60_000; Date.now() < deadlineMs; ) {
    const output = agentctl(['approvals', '--json'], { capturesOutput: true, isQuiet: true });
    const { approvals } = JSON.parse(output) as { approvals: { id: string; status: string }[] };
    const pending = approvals.find(({ status }) => status === 'pending');
    if (pending !== undefined) return pending.id;
    const { task } = JSON.parse(
      agentctl(['task', 'show', id, '--json'], { capturesOutput: true, isQuiet: true }),
    ) as { task: { status: string } };
    if (['failed', 'canceled', 'completed'].includes(task.status)) {
      agentctl(['task', 'explain', id]);
      return fail(`the task is ${task.status} before approval was requested`);
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return fail('no approval was requested within a minute');
}
