// The demonstration: a runtime on a state directory, one task that a planner shares with two
// colleagues, the story of it, and the proof that the record is whole. Everything is done with
// agentctl, as a person would.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const given = process.env.AGENTD_STATE;
const state =
  given !== undefined && given !== ''
    ? given
    : join(mkdtempSync(join(tmpdir(), 'agentd-demo-')), 'state');
const env = { ...process.env, AGENTD_STATE: state };
const onTerminal = process.stdout.isTTY === true;
const bold = (text: string) => (onTerminal ? `\x1b[1m${text}\x1b[0m` : text);

const dim = (text: string) => (onTerminal ? `\x1b[2m${text}\x1b[0m` : text);

function say(text: string): void {
  process.stdout.write(`\n${bold(text)}\n`);
}

function agentctl(args: string[], options: { captures?: boolean } = {}): string {
  const shown = args.map((arg) => (/[\s"]/.test(arg) ? `"${arg}"` : arg)).join(' ');
  process.stdout.write(dim(`$ agentctl ${shown}\n`));
  const stdout = options.captures === true ? 'pipe' : 'inherit';
  const done = spawnSync(join(root, 'bin', 'agentctl'), args, {
    env,
    encoding: 'utf8',
    stdio: ['ignore', stdout, 'inherit'],
  });
  if (done.status === 0) return done.stdout ?? '';
  agentctlDown();
  process.stderr.write(
    `\nThe demonstration stopped: agentctl ${args[0]} ended with status ${done.status}.\nState: ${state}\n`,
  );
  return process.exit(1);
}

function agentctlDown(): void {
  spawnSync(join(root, 'bin', 'agentctl'), ['down'], { env, stdio: 'ignore' });
}

process.on('SIGINT', () => {
  agentctlDown();
  process.exit(130);
});

say('1. A runtime: one command, no key, no network, no set-up.');
agentctl(['up']);

say(
  '2. A task. The planner takes it and gives parts of it to two colleagues, who work at the same time.',
);
const created = JSON.parse(
  agentctl(
    [
      'task',
      'create',
      'Find out why the API got slower after the last deploy, and propose a fix',
      '--json',
    ],
    { captures: true },
  ),
) as { task: { id: string } };
const { id } = created.task;
agentctl(['task', 'watch', id]);

say('3. The story, from the record: who did what, with which model, allowed by which rule.');
agentctl(['task', 'explain', id]);

say('4. The same run again from recorded answers: nothing is done twice, and nothing differs.');
agentctl(['task', 'replay', id]);

say(
  '5. The proof. The log verifies offline on a copy, against a checkpoint that was kept elsewhere.',
);
const elsewhere = mkdtempSync(join(tmpdir(), 'agentd-demo-copy-'));
writeFileSync(join(elsewhere, 'checkpoint'), agentctl(['audit', 'checkpoint'], { captures: true }));
agentctl(['down']);
cpSync(join(state, 'audit'), join(elsewhere, 'audit'), { recursive: true });
agentctl(['audit', 'verify', join(elsewhere, 'audit'), '--from', join(elsewhere, 'checkpoint')]);

rmSync(elsewhere, { recursive: true });

process.stdout.write(`
Everything this made is in ${state}
  AGENTD_STATE=${state} bin/agentctl up           start it again
  AGENTD_STATE=${state} bin/agentctl task list    what it did
A rehearsal played the model. To use a real one: agentctl model add --help
`);
