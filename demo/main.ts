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
import { breakAgain, prepareDemo } from './setup.ts';
import { STEPS } from './steps.ts';

const LINE_CHARS = 180;
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
const id = createTask(GOAL);
print(`   ${id}: the team is at work; the deploy will need approval`);

const approvalId = await waitForApproval(id);
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

if (isApproved) await handleSecondIncident();

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

function createTask(goal: string): string {
  const where = ['--workspace', setup.repo, '--live', '--json'];
  const created = agentctl(['task', 'create', goal, '--agent', 'planner', ...where], {
    capturesOutput: true,
  });
  return (JSON.parse(created) as { task: { id: string } }).task.id;
}

/** The same kind of incident once more: what was remembered of the first shortens it. */
async function handleSecondIncident(): Promise<void> {
  printHeading(STEPS.again);
  vouchForCause();
  breakAgain(setup);
  await service.waitForRelease(setup.prodLink);
  const brokenMs = await service.measureMedianMs();
  const again = createTask(`${GOAL}, again`);
  const deploy = await waitForApproval(again);
  const deploys = await confirm('Approve this deploy too?');
  agentctl(deploys ? ['approve', deploy, '--for', 'once'] : ['reject', deploy, '--reason', 'no']);
  agentctl(['task', 'watch', again], { capturesOutput: true, isQuiet: true });
  if (deploys) await service.waitForRelease(setup.prodLink);
  const repairedMs = await service.measureMedianMs();
  printShort(again);
  print(`   a request takes ${repairedMs.toFixed(1)} ms again, ${brokenMs.toFixed(1)} ms before`);
}

/** The coder worked where the hostile line had been read: a person has to read its words first. */
function vouchForCause(): void {
  const list = ['memory', 'list', '--scope', 'project:orders', '--json'];
  const listed = agentctl(list, { capturesOutput: true, isQuiet: true });
  const { memories } = JSON.parse(listed) as { memories: { id: string; text: string | null }[] };
  const found = memories.find(({ text }) => text?.includes('search through all orders') === true);
  if (found === undefined) return;
  for (const line of (found.text ?? '').split('\n')) print(`   ${line}`);
  agentctl(['memory', 'edit', found.id, '--vouch'], { capturesOutput: true });
}

/** Prints what the planner itself read and did. */
function printShort(taskId: string): void {
  const explain = ['task', 'explain', taskId, '--json'];
  const { explanation } = JSON.parse(
    agentctl(explain, { capturesOutput: true, isQuiet: true }),
  ) as { explanation: { steps: { depth: number; kind: string; text: string }[] } };
  for (const { depth, kind, text } of explanation.steps)
    if ((depth === 0 && kind !== 'model') || (depth === 1 && kind === 'asked'))
      print(`   ${text.length > LINE_CHARS ? `${text.slice(0, LINE_CHARS)}…` : text}`);
}

async function waitForApproval(taskId: string): Promise<string> {
  for (const deadlineMs = Date.now() + 60_000; Date.now() < deadlineMs; ) {
    const output = agentctl(['approvals', '--json'], { capturesOutput: true, isQuiet: true });
    const { approvals } = JSON.parse(output) as { approvals: { id: string; status: string }[] };
    const pending = approvals.find(({ status }) => status === 'pending');
    if (pending !== undefined) return pending.id;
    const { task } = JSON.parse(
      agentctl(['task', 'show', taskId, '--json'], { capturesOutput: true, isQuiet: true }),
    ) as { task: { status: string } };
    if (['failed', 'canceled', 'completed'].includes(task.status)) {
      agentctl(['task', 'explain', taskId]);
      return fail(`the task is ${task.status} before approval was requested`);
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return fail('no approval was requested within a minute');
}
